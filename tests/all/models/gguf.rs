//! GGUF files, written here by the format's own description, and read back.

use super::{fixtures, ids, json, text};
use half::{bf16, f16};
use serde_json::Value;
use std::path::Path;
use tch::{Device, Kind, Tensor};
use whet_model::{Checkpoint, Decoder, Packed, load};

/// A file in the making.
#[derive(Default)]
struct Writer {
    values: Vec<u8>,
    value_count: u64,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Writer {
    fn value(&mut self, key: &str, kind: u32, bytes: &[u8]) {
        put_text(&mut self.values, key);
        self.values.extend(kind.to_le_bytes());
        self.values.extend(bytes);
        self.value_count += 1;
    }

    fn number(&mut self, key: &str, value: u32) {
        self.value(key, 4, &value.to_le_bytes());
    }

    fn float(&mut self, key: &str, value: f32) {
        self.value(key, 6, &value.to_le_bytes());
    }

    fn text(&mut self, key: &str, value: &str) {
        let mut bytes = Vec::new();
        put_text(&mut bytes, value);
        self.value(key, 8, &bytes);
    }

    fn list(&mut self, key: &str, kind: u32, count: usize, items: &[u8]) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((count as u64).to_le_bytes());
        bytes.extend(items);
        self.value(key, 9, &bytes);
    }

    fn texts(&mut self, key: &str, list: &[String]) {
        let mut items = Vec::new();
        list.iter().for_each(|text| put_text(&mut items, text));
        self.list(key, 8, list.len(), &items);
    }

    /// `shape` is row-major; the file has it the other way round.
    fn tensor(&mut self, name: &str, shape: &[i64], kind: u32, data: Vec<u8>) {
        let shape = shape.iter().rev().map(|&n| n as u64).collect();
        self.tensors.push((name.to_owned(), shape, kind, data));
    }

    fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.value_count.to_le_bytes());
        out.extend(&self.values);
        let mut data = Vec::new();
        for (name, shape, kind, bytes) in &self.tensors {
            put_text(&mut out, name);
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        out
    }
}

/// Small pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    /// In `0..n`.
    fn roll(&mut self, n: u64) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n) as u8
    }

    /// A small scale that f16 holds exactly.
    fn scale(&mut self) -> f32 {
        f32::from(self.roll(30) + 1) / 1024.0
    }
}

fn half(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}

/// One block: its bytes, and the values that it stands for by the format's definition.
type Block = fn(&mut Dice) -> (Vec<u8>, Vec<f32>);

/// Nibbles of 32 elements, the first half low.
fn nibbles(q: &[u8]) -> Vec<u8> {
    (0..16).map(|j| q[j] & 15 | (q[j + 16] & 15) << 4).collect()
}

/// The fifth bits of 32 elements.
fn fifths(q: &[u8]) -> [u8; 4] {
    q.iter().enumerate().fold(0u32, |word, (j, &q)| word | u32::from(q >> 4) << j).to_le_bytes()
}

fn simple(dice: &mut Dice, levels: u64, with_minimum: bool) -> (Vec<u8>, Vec<f32>) {
    let (d, m) = (dice.scale(), if with_minimum { -dice.scale() } else { 0.0 });
    let q: Vec<u8> = (0..32).map(|_| dice.roll(levels)).collect();
    let mut bytes = half(d).to_vec();
    if with_minimum {
        bytes.extend(half(m));
    }
    if levels == 32 {
        bytes.extend(fifths(&q));
    }
    bytes.extend(nibbles(&q));
    let middle = if with_minimum { 0.0 } else { levels as f32 / 2.0 };
    (bytes, q.iter().map(|&q| d * (f32::from(q) - middle) + m).collect())
}

fn q8_0(dice: &mut Dice) -> (Vec<u8>, Vec<f32>) {
    let d = dice.scale();
    let q: Vec<i8> = (0..32).map(|_| (i16::from(dice.roll(255)) - 127) as i8).collect();
    let mut bytes = half(d).to_vec();
    bytes.extend(q.iter().map(|q| q.cast_unsigned()));
    (bytes, q.iter().map(|&q| d * f32::from(q)).collect())
}

/// Q4_K and Q5_K: eight sub-blocks with a six-bit scale and a six-bit minimum each.
fn k45(dice: &mut Dice, levels: u64) -> (Vec<u8>, Vec<f32>) {
    let (d, dmin) = (dice.scale() / 16.0, dice.scale() / 16.0);
    let scales: Vec<u8> = (0..8).map(|_| dice.roll(64)).collect();
    let minima: Vec<u8> = (0..8).map(|_| dice.roll(64)).collect();
    let q: Vec<u8> = (0..256).map(|_| dice.roll(levels)).collect();
    let mut bytes = [half(d), half(dmin)].concat();
    bytes.extend((0..4).map(|j| scales[j] | scales[j + 4] >> 4 << 6));
    bytes.extend((0..4).map(|j| minima[j] | minima[j + 4] >> 4 << 6));
    bytes.extend((4..8).map(|j| scales[j] & 15 | minima[j] << 4));
    if levels == 32 {
        // Bit j of byte l: the fifth bit of element l of sub-block j.
        bytes.extend((0..32).map(|l| (0..8).fold(0, |byte, j| byte | (q[32 * j + l] >> 4) << j)));
    }
    for pair in q.chunks(64) {
        bytes.extend((0..32).map(|l| pair[l] & 15 | pair[l + 32] << 4));
    }
    let value = |(i, &q): (usize, &u8)| {
        d * f32::from(scales[i / 32]) * f32::from(q) - dmin * f32::from(minima[i / 32])
    };
    (bytes, q.iter().enumerate().map(value).collect())
}

fn q6_k(dice: &mut Dice) -> (Vec<u8>, Vec<f32>) {
    let d = dice.scale() / 64.0;
    let scales: Vec<i8> = (0..16).map(|_| (i16::from(dice.roll(255)) - 127) as i8).collect();
    let q: Vec<u8> = (0..256).map(|_| dice.roll(64)).collect();
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for half in q.chunks(128) {
        low.extend((0..64).map(|l| half[l] & 15 | (half[l + 64] & 15) << 4));
        high.extend((0..32).map(|l| (0..4).fold(0, |byte, k| byte | half[32 * k + l] >> 4 << (2 * k))));
    }
    let mut bytes = [low, high].concat();
    bytes.extend(scales.iter().map(|s| s.cast_unsigned()));
    bytes.extend(half(d));
    let value = |(i, &q): (usize, &u8)| d * f32::from(scales[i / 16]) * (f32::from(q) - 32.0);
    (bytes, q.iter().enumerate().map(value).collect())
}

/// The types that are read: number in the file and one block.
const TYPES: [(&str, u32, Block); 11] = [
    ("F32", 0, |dice| {
        let v = dice.scale();
        (v.to_le_bytes().to_vec(), vec![v])
    }),
    ("F16", 1, |dice| {
        let v = dice.scale();
        (half(v).to_vec(), vec![v])
    }),
    ("BF16", 30, |dice| {
        let v = dice.scale();
        (bf16::from_f32(v).to_le_bytes().to_vec(), vec![v])
    }),
    ("Q4_0", 2, |dice| simple(dice, 16, false)),
    ("Q4_1", 3, |dice| simple(dice, 16, true)),
    ("Q5_0", 6, |dice| simple(dice, 32, false)),
    ("Q5_1", 7, |dice| simple(dice, 32, true)),
    ("Q8_0", 8, q8_0),
    ("Q4_K", 12, |dice| k45(dice, 16)),
    ("Q5_K", 13, |dice| k45(dice, 32)),
    ("Q6_K", 14, q6_k),
];

/// Metadata of a fixture's tokenizer.
fn put_tokenizer(writer: &mut Writer, folder: &str, model: &str, pre: &str) {
    let tokenizer = json(&fixtures().join("tokenizers").join(folder).join("tokenizer.json"));
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap();
    let added = tokenizer["added_tokens"].as_array().unwrap();
    let merges: Vec<String> = tokenizer["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap()))
        .collect();
    let id = |v: &Value| v.as_u64().unwrap() as usize;
    let count = vocab.values().chain(added.iter().map(|a| &a["id"])).map(id).max().unwrap() + 1;
    let mut tokens = vec![String::new(); count];
    let mut types = vec![1i32; count];
    for (token, at) in vocab {
        tokens[id(at)] = token.clone();
        if model == "llama" && token.starts_with("<0x") {
            types[id(at)] = 6;
        }
    }
    for token in added {
        tokens[id(&token["id"])] = text(token, "content").to_owned();
        types[id(&token["id"])] = if token["special"] == true { 3 } else { 4 };
    }
    writer.text("tokenizer.ggml.model", model);
    writer.text("tokenizer.ggml.pre", pre);
    writer.texts("tokenizer.ggml.tokens", &tokens);
    let types: Vec<u8> = types.iter().flat_map(|t| t.to_le_bytes()).collect();
    writer.list("tokenizer.ggml.token_type", 5, count, &types);
    if model == "llama" {
        // The earlier a piece is merged, the higher its score.
        let rank = |token: &String| merges.iter().position(|m| m.replace(' ', "") == *token);
        let scores = tokens.iter().map(|t| -(rank(t).unwrap_or(merges.len()) as f32));
        let scores: Vec<u8> = scores.flat_map(f32::to_le_bytes).collect();
        writer.list("tokenizer.ggml.scores", 6, count, &scores);
        writer.number("tokenizer.ggml.unknown_token_id", 0);
        writer.number("tokenizer.ggml.bos_token_id", 1);
    } else {
        writer.texts("tokenizer.ggml.merges", &merges);
    }
}

/// Sizes of the tiny model.
const HIDDEN: i64 = 256;
const HEADS: i64 = 4;
const VOCAB: i64 = 32;

/// Name, shape and values of a tensor that was written.
type Written = (String, Vec<i64>, Vec<f32>);

/// A one-layer model with every matrix of one type, and the values that were written, by GGUF name.
fn tiny(architecture: &str, number: u32, block: Block) -> (Writer, Vec<Written>) {
    let mut writer = Writer::default();
    writer.text("general.architecture", architecture);
    for (name, value) in [
        ("embedding_length", HIDDEN as u32),
        ("feed_forward_length", HIDDEN as u32),
        ("block_count", 1),
        ("attention.head_count", HEADS as u32),
        ("attention.head_count_kv", 2),
        ("context_length", 128),
    ] {
        writer.number(&format!("{architecture}.{name}"), value);
    }
    writer.float(&format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-5);
    writer.float(&format!("{architecture}.rope.freq_base"), 10_000.0);
    writer.number("tokenizer.ggml.eos_token_id", 2);
    writer.number("tokenizer.ggml.eot_token_id", 3);
    put_tokenizer(&mut writer, "smollm2", "gpt2", "smollm");
    writer.text("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    let kv = HIDDEN / 2;
    let mut dice = Dice(u64::from(number) + 1);
    let mut written = Vec::new();
    let matrices = [
        ("token_embd.weight", VOCAB, HIDDEN),
        ("blk.0.attn_q.weight", HIDDEN, HIDDEN),
        ("blk.0.attn_k.weight", kv, HIDDEN),
        ("blk.0.attn_v.weight", kv, HIDDEN),
        ("blk.0.attn_output.weight", HIDDEN, HIDDEN),
        ("blk.0.ffn_gate.weight", HIDDEN, HIDDEN),
        ("blk.0.ffn_up.weight", HIDDEN, HIDDEN),
        ("blk.0.ffn_down.weight", HIDDEN, HIDDEN),
    ];
    for (name, rows, cols) in matrices {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        while (values.len() as i64) < rows * cols {
            let (block_bytes, block_values) = block(&mut dice);
            bytes.extend(block_bytes);
            values.extend(block_values);
        }
        writer.tensor(name, &[rows, cols], number, bytes);
        written.push((name.to_owned(), vec![rows, cols], values));
    }
    let mut vectors = vec!["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"];
    if architecture == "qwen2" {
        vectors.extend(["blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"]);
    }
    for name in vectors {
        let rows = if name.contains("attn_k.") || name.contains("attn_v.") { kv } else { HIDDEN };
        let values: Vec<f32> = (0..rows).map(|i| 1.0 + i as f32 / 512.0).collect();
        writer.tensor(name, &[rows], 0, values.iter().flat_map(|v| v.to_le_bytes()).collect());
        written.push((name.to_owned(), vec![rows], values));
    }
    (writer, written)
}

fn open(bytes: &[u8]) -> Result<Checkpoint, whet_model::ModelError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    load(path.to_str().unwrap(), Kind::Float, Device::Cpu)
}

fn hugging_face_name(name: &str) -> String {
    let name = name.replace("blk.0.", "model.layers.0.");
    for (from, to) in [
        ("token_embd", "model.embed_tokens"),
        ("output_norm", "model.norm"),
        ("attn_norm", "input_layernorm"),
        ("ffn_norm", "post_attention_layernorm"),
        ("attn_output", "self_attn.o_proj"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ] {
        if name.contains(from) {
            return name.replace(from, to);
        }
    }
    panic!("{name}")
}

#[test]
fn every_type_of_tensor_is_read_as_the_values_it_stands_for() {
    for (kind, number, block) in TYPES {
        let (writer, written) = tiny("qwen2", number, block);
        let loaded = open(&writer.finish()).unwrap();
        assert_eq!(loaded.weights.len(), written.len());
        for (name, shape, values) in written {
            let expected = Tensor::from_slice(&values).view(shape.as_slice());
            let far = (&loaded.weights[&hugging_face_name(&name)] - expected).abs().max();
            assert!(far.double_value(&[]) < 1e-6, "{kind} {name}");
        }
    }
}

#[test]
fn interleaved_rows_of_llama_files_are_put_back() {
    // Row (head, half, i) of the model is row (head, i, half) of the file.
    let (writer, written) = tiny("llama", 0, TYPES[0].2);
    let loaded = open(&writer.finish()).unwrap();
    for (name, rows) in [("blk.0.attn_q.weight", HIDDEN), ("blk.0.attn_k.weight", HIDDEN / 2)] {
        let (_, _, values) = written.iter().find(|w| w.0 == name).unwrap();
        let stored = Tensor::from_slice(values).view([rows, HIDDEN]);
        let tensor = &loaded.weights[&hugging_face_name(name)];
        let dim = HIDDEN / HEADS;
        for row in 0..rows {
            let (head, half, i) = (row / dim, row % dim / (dim / 2), row % (dim / 2));
            assert!(tensor.get(row).equal(&stored.get(head * dim + 2 * i + half)), "{name} row {row}");
        }
    }
}

#[test]
fn a_gguf_file_gives_configuration_ends_and_template_and_saves_as_a_folder() {
    let _guard = tch::no_grad_guard();
    let (writer, _) = tiny("llama", 8, q8_0);
    let first = open(&writer.finish()).unwrap();
    assert_eq!(first.config.eos, [3, 2]);
    assert_eq!((first.config.norm_eps, first.config.head_dim, first.config.tied), (1e-5, 64, true));
    let message = [serde_json::json!({"role": "user", "content": "hello"})];
    let rendered = first.template.as_ref().unwrap().render(&message, None, true, &Default::default());
    assert_eq!(rendered.unwrap(), "hello");

    let folder = tempfile::tempdir().unwrap();
    whet_model::save(folder.path(), &first.files, &first.weights).unwrap();
    let again = load(folder.path().to_str().unwrap(), Kind::Float, Device::Cpu).unwrap();
    assert_eq!((&again.config.eos, &again.config.rope), (&first.config.eos, &first.config.rope));
    let packed = Packed::sequences(&[[1, 5, 9, 2]], Device::Cpu).unwrap();
    let hidden = [&first, &again].map(|c| Decoder::new(&c.config, &c.weights).unwrap().hidden(&packed));
    assert!(hidden[0].equal(&hidden[1]));
    assert_eq!(
        again.tokenizer.encode("12 cats", false).unwrap(),
        first.tokenizer.encode("12 cats", false).unwrap()
    );
}

#[test]
fn tokenizers_in_gguf_agree_with_their_json() {
    for (folder, model, pre) in [
        ("smollm2", "gpt2", "smollm"),
        ("qwen2", "gpt2", "qwen2"),
        ("llama3", "gpt2", "llama-bpe"),
        ("sp_bytefallback", "llama", "default"),
    ] {
        let (mut writer, _) = tiny("llama", 0, TYPES[0].2);
        // A later value of the same key takes the place of the earlier one.
        put_tokenizer(&mut writer, folder, model, pre);
        let tokenizer = open(&writer.finish()).unwrap().tokenizer;
        let cases = json(&fixtures().join("tokenizers").join(folder).join("cases.json"));
        for case in cases["encode"].as_array().unwrap() {
            let what = format!("{folder}: {:?}", text(case, "text"));
            let got = tokenizer.encode(text(case, "text"), false).unwrap();
            assert_eq!(got, ids(&case["ids"]), "{what}");
            assert_eq!(tokenizer.decode(&got, true).unwrap(), text(case, "decoded_skip_special"), "{what}");
        }
    }
}

#[test]
fn damaged_and_foreign_files_are_refused_with_a_reason() {
    let (mut writer, _) = tiny("llama", 8, q8_0);
    let whole = writer.finish();
    let says = |bytes: &[u8], word: &str| {
        let message = open(bytes).unwrap_err().to_string();
        assert!(message.contains("tiny.gguf") && message.contains(word), "{message}");
    };
    says(b"PK\x03\x04", "GGUF");
    says(&whole[..200], "only partly there");
    says(&whole[..whole.len() / 2], "only partly there");
    let mut old = whole.clone();
    old[4] = 1;
    says(&old, "version");
    let (foreign, _) = tiny("mamba", 8, q8_0);
    says(&foreign.finish(), "mamba");
    // IQ2_XXS is not read.
    writer.tensors[1].2 = 16;
    says(&writer.finish(), "Q4_K");
    writer.tensors.remove(1);
    assert!(open(&writer.finish()).unwrap_err().to_string().contains("q_proj"));
}

/// For a real file, which the repository does not carry: `WHET_GGUF=model.gguf` names it.
#[test]
fn a_real_model_continues_a_sentence() {
    let Some(path) = std::env::var_os("WHET_GGUF") else { return };
    let _guard = tch::no_grad_guard();
    let model = load(Path::new(&path).to_str().unwrap(), Kind::Float, Device::Cpu).unwrap();
    let decoder = Decoder::new(&model.config, &model.weights).unwrap();
    let message = [serde_json::json!({"role": "user", "content": "What is the capital of France?"})];
    let prompt = model.template.unwrap().render(&message, None, true, &Default::default()).unwrap();
    let mut row = model.tokenizer.encode(&prompt, false).unwrap();
    let prompt = row.len();
    while row.len() < prompt + 16 && !model.config.eos.contains(&row[row.len() - 1]) {
        let hidden = decoder.hidden(&Packed::sequences(&[&row], Device::Cpu).unwrap());
        let logits = decoder.logits(&hidden.narrow(0, row.len() as i64 - 1, 1));
        row.push(logits.argmax(-1, false).int64_value(&[0]) as u32);
    }
    let answer = model.tokenizer.decode(&row[prompt..], true).unwrap();
    assert!(answer.contains("Paris"), "{answer}");
}
