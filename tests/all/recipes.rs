//! Recipes as a person writes them: what loads, what is refused, and with which words.

use std::path::{Path, PathBuf};
use whet_recipe::{
    ByteSize, Correction, Device, Dtype, Estimator, Examples, Grant, KlEstimator, LoraTarget, Loss,
    ModelNumbers, Recipe, Reduction, Rejection, Starter, Time, estimate, schema, starter,
};

/// A folder with the files that the recipes below name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "data/sums.train.jsonl",
        "data/sums.test.jsonl",
        "model/config.json",
        "plugins/mine.wasm",
        "solved.jsonl",
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "{\"prompt\": \"1 + 1 =\", \"label\": \"2\"}\n").unwrap();
    }
    folder
}

fn load_text(folder: &Path, text: &str, overrides: &[&str]) -> Result<Recipe, whet_recipe::RecipeErrors> {
    let path = folder.join("sums.toml");
    std::fs::write(&path, text).unwrap();
    let overrides: Vec<String> = overrides.iter().map(|o| (*o).to_owned()).collect();
    Recipe::load_with(&path, &overrides)
}

/// The words for a recipe that must be refused, with the folder left out of paths.
fn refusal(text: &str, overrides: &[&str]) -> String {
    let folder = folder();
    let errors = load_text(folder.path(), text, overrides).expect_err("the recipe must be refused");
    errors.to_string().replace(&format!("{}/", folder.path().display()), "")
}

/// `SMALL` with some lines appended.
fn small_and(lines: &str) -> String {
    format!("{SMALL}{lines}")
}

const SMALL: &str = "\
model = \"hf://HuggingFaceTB/SmolLM2-135M-Instruct\"
[data]
train = \"data/sums.train.jsonl\"
[reward]
plugin = \"math-answer\"
";

const STYLE: &str = r#"
# Teach a small model to add, rewarded by a sandboxed plugin.
model = "hf://HuggingFaceTB/SmolLM2-135M-Instruct"

[data]
train = "data/sums.train.jsonl"
test  = "data/sums.test.jsonl"

[reward]
plugin = "math-answer"          # a standard plugin; a path works too
limits = { time = "200ms", memory = "32MiB" }

[rollout]
samples-per-prompt = 8
max-tokens = 32

[algorithm]
preset = "grpo"
clip-high = 0.28
"#;

const FULL: &str = r#"
seed = 7
filter = [{ plugin = "zero-variance" }]
advantage = { plugin = "plugins/mine.wasm", profile = "deterministic" }
on-failure = { retries = 3, abort-above = 0.1 }

[model]
source = "model"
dtype = "bf16"
device = "cuda:1"
lora = { rank = 8, alpha = 16, targets = ["q_proj", "v_proj"] }

[data]
train = ["data/sums.train.jsonl@[0:1]", "data/sums.test.jsonl[1..]"]
test = "data/sums.test.jsonl[..1]"
columns = { prompt = "question", label = "answer", id = "name", metadata = ["level"] }
system = "Answer with the number only."
template-kwargs = { enable_thinking = false }
examples = [{ prompt = "1 + 2 =", answer = "3" }]
shuffle = false
max-prompt-tokens = 100

[[reward]]
plugin = "math-answer"
config = { mode = "strict", since = 2024-01-05 }
grants = ["random", "http:api.example.com"]
digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
weight = 0.75
weights = { exact = 1.0, bare = 0.2 }
limits.time = "1.5s"

[[reward]]
plugin = "format"

[rollout]
prompts-per-step = 4
temperature = 0.7
top-p = 0.9
stop = ["\n\n"]
stop-ids = [2]
kv-budget = "512MiB"

[algorithm]
kl = { estimator = "k1", coefficient = 0.01 }
reduction = "seq-mean-token-mean"
correction.kind = "none"
minibatches = 2

[train]
steps = 10
learning-rate = 1e-5
betas = [0.8, 0.95]
schedule = "cosine"

[eval]
every = 5
temperature = 1
samples-per-prompt = 4

[log]
tensorboard = false

[run]
dir = "out"
keep = 1
"#;

#[test]
fn a_short_recipe_gets_every_default() {
    let folder = folder();
    let recipe = load_text(folder.path(), STYLE, &[]).unwrap();
    assert_eq!(recipe.model.source, "hf://HuggingFaceTB/SmolLM2-135M-Instruct");
    assert_eq!((recipe.model.dtype, recipe.model.device), (Dtype::Auto, Device::Auto));
    assert_eq!(recipe.reward[0].plugin.limits.time, "200ms".parse::<Time>().unwrap());
    assert_eq!(recipe.reward[0].plugin.limits.memory, ByteSize(32 << 20));
    assert_eq!(recipe.reward[0].weight, 1.0);
    assert_eq!(recipe.algorithm.loss, Loss::clip(0.2, 0.28));
    let eval = recipe.eval.expect("test data is there, so it is measured");
    assert_eq!((eval.max_tokens, eval.temperature), (32, 0.0), "as long as the rollouts, greedy");
    assert_eq!(recipe.run.dir, std::env::current_dir().unwrap().join("runs/sums"));
    assert_eq!(
        recipe.data.train[0].path,
        folder.path().canonicalize().unwrap().join("data/sums.train.jsonl")
    );
}

#[test]
fn every_section_is_read() {
    let folder = folder();
    let recipe = load_text(folder.path(), FULL, &[]).unwrap();
    assert_eq!(recipe.seed, 7);
    assert_eq!(recipe.model.device, Device::Cuda(1));
    assert_eq!(recipe.model.lora.unwrap().targets, [LoraTarget::QProj, LoraTarget::VProj]);
    assert_eq!(recipe.data.train.len(), 2);
    assert_eq!(recipe.data.columns.metadata.as_deref(), Some(&["level".to_owned()][..]));
    assert!(matches!(recipe.data.examples, Some(Examples::Inline(list)) if list[0].answer == "3"));
    assert_eq!(recipe.reward.len(), 2);
    assert_eq!(
        recipe.reward[0].plugin.grants,
        [Grant::Random, Grant::Http { host: "api.example.com".into(), local: false }]
    );
    assert_eq!(recipe.reward[0].plugin.config["since"], "2024-01-05", "a date stays as it is written");
    assert_eq!(recipe.reward[0].weights["bare"], 0.2);
    assert_eq!(recipe.filter[0].plugin, "zero-variance");
    assert!(Path::new(&recipe.advantage.unwrap().plugin).is_absolute());
    assert_eq!(recipe.on_failure.retries, 3);
    assert_eq!((recipe.algorithm.kl.estimator, recipe.algorithm.kl.coefficient), (KlEstimator::K1, 0.01));
    assert_eq!(recipe.algorithm.reduction, Reduction::SeqMeanTokenMean);
    assert_eq!(recipe.algorithm.correction, Correction::None);
    assert_eq!(recipe.rollout.kv_budget, ByteSize(512 << 20));
    assert_eq!(recipe.eval.unwrap().samples_per_prompt, 4);
    assert_eq!(recipe.run.dir, folder.path().canonicalize().unwrap().join("out"));
}

#[test]
fn a_resolved_recipe_loads_back_equal_from_anywhere() {
    let folder = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    for text in [STYLE, FULL, SMALL] {
        let recipe = load_text(folder.path(), text, &["train.steps=3"]).unwrap();
        let resolved = recipe.resolved_toml();
        let path = elsewhere.path().join("recipe.toml");
        std::fs::write(&path, &resolved).unwrap();
        assert_eq!(Recipe::load(&path).unwrap_or_else(|e| panic!("{e}\n{resolved}")), recipe, "{resolved}");
        assert!(
            resolved.contains("steps = 3") && resolved.contains("gradient-checkpointing = false"),
            "{resolved}"
        );
    }
}

#[test]
fn overrides_change_and_add_keys() {
    let folder = folder();
    let set = [
        "train.steps=20",
        "model.device=cpu",
        "model.lora.rank=4",
        "reward.limits.time=3s",
        "rollout.stop=[\"\\n\"]",
        "algorithm.clip-high = 0.3",
        "data.system=Be brief, please.",
        "run.dir=out",
    ];
    let recipe = load_text(folder.path(), STYLE, &set).unwrap();
    assert_eq!(recipe.train.steps, 20);
    assert_eq!(recipe.model.device, Device::Cpu);
    assert_eq!(recipe.model.source, "hf://HuggingFaceTB/SmolLM2-135M-Instruct");
    assert_eq!(recipe.model.lora.unwrap().rank, 4);
    assert_eq!(recipe.reward[0].plugin.limits.time, "3s".parse::<Time>().unwrap());
    assert_eq!(recipe.reward[0].plugin.limits.memory, ByteSize(32 << 20), "its neighbour stays");
    assert_eq!(recipe.rollout.stop, ["\n"]);
    assert_eq!(recipe.data.system.as_deref(), Some("Be brief, please."));
    assert_eq!(
        recipe.run.dir,
        std::env::current_dir().unwrap().join("out"),
        "relative to where the command runs"
    );
    let recipe = load_text(folder.path(), FULL, &["reward[1].weight=0.5", "model=hf://a/b"]).unwrap();
    assert_eq!((recipe.reward[1].weight, recipe.model.source.as_str()), (0.5, "hf://a/b"));
}

#[test]
fn an_override_that_cannot_apply_is_refused() {
    for bad in
        ["train.steps", "=3", "reward[5].weight=1", "train..steps=1", "train.steps.more=1", "seed=1e999"]
    {
        let words = refusal(&small_and("[train]\nsteps = 1\n"), &[bad]);
        assert!(words.contains(bad) && words.contains("= help:"), "{bad}: {words}");
    }
    let words = refusal(SMALL, &["train.stps=3"]);
    assert_eq!(
        words,
        "error: recipe key `train.stps` is not known\n  --> --set train.stps=3\n   = help: did you mean `steps`?"
    );
}

#[test]
fn an_unknown_key_is_shown_with_place_and_remedy() {
    let words = refusal(&STYLE.replace("clip-high", "clip-hi"), &[]);
    assert_eq!(
        words,
        "error: recipe key `algorithm.clip-hi` is not known\n  --> sums.toml:19:1\n   = help: did you mean `clip-high`?"
    );
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let words = refusal(
        "seed = -1\nmodel = 3\n[data]\ntrain = \"nowhere.jsonl[5..2]\"\nshufle = true\n[rollout]\nmax-tokens = 3.0\ntop-p = 1.5\n",
        &[],
    );
    let expected = [
        ("`seed` is -1", "sums.toml:1:8"),
        ("`model` must be a text or a table, not a whole number (3)", "sums.toml:2:9"),
        ("`data.train`: `[5..2]` is not a range of rows", "sums.toml:4:9"),
        ("`data.shufle` is not known", "sums.toml:5:1"),
        ("`rollout.max-tokens` must be a whole number, not a decimal number (3.0)", "sums.toml:7:14"),
        ("`rollout.top-p` is 1.5, which is out of range", "sums.toml:8:9"),
    ];
    let blocks: Vec<&str> = words.split("\n\n").collect();
    assert_eq!(blocks.len(), expected.len(), "{words}");
    for (block, (what, place)) in blocks.iter().zip(expected) {
        assert!(
            block.contains(what) && block.contains(&format!("--> {place}")) && block.contains("= help: "),
            "{block}"
        );
    }
}

#[test]
fn keys_are_understood_when_other_systems_name_them() {
    for (lines, help) in [
        ("[train]\nlr = 1e-5\n", "did you mean `learning-rate`?"),
        ("[train]\nlearning_rate = 1e-5\n", "did you mean `learning-rate`?"),
        ("[rollout]\nnum_generations = 4\n", "did you mean `samples-per-prompt`?"),
        ("[rollout]\nmax-new-tokens = 4\n", "did you mean `max-tokens`?"),
        ("[train]\nmax-tokens = 4\n", "`eval.max-tokens`, `judge.max-tokens` or `rollout.max-tokens`?"),
        ("[algorithm]\nbeta = 0.1\n", "did you mean `kl`?"),
        ("[algoritm]\nclip-low = 0.1\n", "did you mean `algorithm`?"),
        ("[run]\nzzz = 1\n", "known here: dir, checkpoint-every, keep"),
    ] {
        let words = refusal(&small_and(lines), &[]);
        assert!(words.contains(help), "{lines}: {words}");
    }
}

#[test]
fn a_wrong_value_is_told_what_to_write() {
    for (lines, message, help) in [
        ("limits = { time = 200 }\n", "must be a length of time", "the unit too, as in \"200ms\""),
        ("limits = { memory = \"32\" }\n", "`32` is not a size", "as in \"32MiB\""),
        ("limits = { memory = \"0MiB\" }\n", "out of range", "above zero"),
        ("grants = [\"net\"]\n", "`net` is not a capability", "\"http:api.example.com\""),
        ("digest = \"abc\"\n", "`abc` is not a digest", "whet plugin inspect"),
        ("weight = \"2\"\n", "must be a number, not a text", "2 without quotes"),
        ("plugin-name = \"x\"\n", "is not known", "`plugin`"),
        ("[rollout]\nmax-tokens = 0\n", "is 0, which is out of range", "of at least 1"),
        ("[rollout]\nstop = \"x\"\n", "must be a list", "[\"x\"]"),
        ("[rollout]\ntop-k = 5000000000\n", "out of range", "at most 4294967295"),
        ("[algorithm]\nclip-low = 1.5\n", "out of range", "at most 1"),
        ("[algorithm]\nscale = \"grup\"\n", "cannot be \"grup\"", "did you mean \"group\"?"),
        ("[algorithm]\npreset = \"gpro\"\n", "cannot be \"gpro\"", "did you mean \"grpo\"?"),
        ("[algorithm]\nloss = \"cipso\"\n", "cannot be \"cipso\"", "did you mean \"cispo\"?"),
        (
            "[algorithm]\nloss = { hihg = 0.3 }\n",
            "`algorithm.loss.hihg` is not known",
            "did you mean `high`?",
        ),
        ("[algorithm]\nloss = 3\n", "must be a table or a text", "a name, as in \"clip\", or a table"),
        ("[algorithm]\nrejection = [\"opms\"]\n", "cannot be \"opms\"", "did you mean \"opsm\"?"),
        ("[train]\nbetas = [0.9]\n", "a list of 1 items", "with 2 items"),
        ("[train]\nlearning-rate = 0\n", "out of range", "above 0"),
        ("[train]\nlearning-rate = nan\n", "cannot be nan", "finite"),
        ("[train]\nsteps = 99999999999999999999\n", "cannot be 99999999999999999999", "64 bits"),
        ("[model-x]\n", "`model-x` is not known", "did you mean `model`?"),
    ] {
        let words = refusal(&small_and(lines), &[]);
        assert!(words.contains(message) && words.contains(help), "{lines}: {words}");
    }
}

#[test]
fn a_key_without_effect_is_refused() {
    for (lines, key) in [
        ("[algorithm]\nkl = { estimator = \"k1\" }\n", "algorithm.kl.estimator"),
        ("[algorithm]\nloss = \"reinforce\"\nratio = \"token\"\n", "algorithm.ratio"),
        ("[algorithm]\noverlong = { buffer = 4 }\n", "algorithm.overlong.buffer"),
        (
            "[advantage]\nplugin = \"group-norm\"\n[algorithm]\nscale = \"none\"\n",
            "algorithm.estimator.scale",
        ),
        (
            "[rollout]\ntemperature = 0\nsamples-per-prompt = 1\ntop-k = 5\n[advantage]\nplugin = \"group-norm\"\n",
            "rollout.top-k",
        ),
    ] {
        let words = refusal(&small_and(lines), &[]);
        let expected = format!("error: recipe key `{key}` has no effect: ");
        assert!(
            words.starts_with(&expected) && words.contains("= help:") && !words.contains("\n\n"),
            "{lines}: {words}"
        );
    }
    let raw = SMALL.replace("[reward]", "prompt-format = \"raw\"\nsystem = \"x\"\n[reward]");
    assert!(refusal(&raw, &[]).contains("`data.system` has no effect"));
}

#[test]
fn keys_that_contradict_each_other_are_refused() {
    for (lines, message) in [
        (
            "[rollout]\nsamples-per-prompt = 1\n",
            "`rollout.samples-per-prompt`: 1 response per prompt has nothing to be compared with",
        ),
        ("[rollout]\ntemperature = 0\n", "`rollout.temperature`: greedy sampling"),
        ("[rollout]\ntop-k = 1\n", "`rollout.top-k`: greedy sampling"),
        (
            "[train]\nmicro-batch-tokens = 100\n",
            "`train.micro-batch-tokens`: 100 tokens cannot hold one sample",
        ),
        (
            "[algorithm]\nminibatches = 9\n",
            "`algorithm.minibatches`: 8 prompts per step cannot be split into 9",
        ),
        ("[eval]\nevery = 5\n", "`eval`: there is no test data"),
        ("weight = 0\n", "`reward.weight`: with weight 0 nothing is rewarded"),
    ] {
        let words = refusal(&small_and(lines), &[]);
        assert!(
            words.contains(message) && words.contains("= help:") && words.contains("sums.toml:"),
            "{lines}: {words}"
        );
    }
    let test = |test: &str| SMALL.replace("[reward]", &format!("test = \"{test}\"\n[reward]"));
    let words = refusal(&test("data/../data/sums.train.jsonl"), &[]);
    assert!(words.contains("`data.test`:") && words.contains("holds rows that are trained on"), "{words}");
    let words = refusal(&format!("{}[eval]\nsamples-per-prompt = 4\n", test("data/sums.test.jsonl")), &[]);
    assert!(words.contains("at temperature 0 the 4 responses"), "{words}");
    let disjoint =
        SMALL.replace("train.jsonl\"", "train.jsonl[1..]\"\ntest = \"data/sums.train.jsonl[..1]\"");
    assert!(load_text(folder().path(), &disjoint, &[]).is_ok());
}

#[test]
fn files_that_do_not_exist_are_named_with_what_is_near() {
    let words = refusal(&SMALL.replace("sums.train", "sum.train"), &[]);
    assert_eq!(
        words,
        "error: recipe key `data.train` names data/sum.train.jsonl, which does not exist\n  --> sums.toml:3:9\n   = help: did you mean `sums.train.jsonl`?"
    );
    let words = refusal(&SMALL.replace("hf://", ""), &[]);
    assert!(words.contains("write \"hf://HuggingFaceTB/SmolLM2-135M-Instruct\""), "{words}");
    let words = refusal(&SMALL.replace("math-answer", "plugins/nine.wasm"), &[]);
    assert!(words.contains("`reward.plugin`") && words.contains("did you mean `mine.wasm`?"), "{words}");
    let folder = folder();
    std::fs::write(folder.path().join("sums.toml"), SMALL).unwrap();
    let words = Recipe::load(&folder.path().join("sum.toml")).unwrap_err().to_string();
    assert!(words.contains("it does not exist") && words.contains("did you mean `sums.toml`?"), "{words}");
}

#[test]
fn broken_toml_is_shown_where_it_breaks() {
    let words = refusal(&small_and("[rollout]\nmax-tokens = \n"), &[]);
    assert!(
        words.starts_with("error: the recipe is not valid TOML: ") && words.contains("--> sums.toml:7:"),
        "{words}"
    );
    let words = refusal(&small_and("[data]\n"), &[]);
    assert!(words.contains("not valid TOML: duplicate key") && words.contains("sums.toml:6:"), "{words}");
}

#[test]
fn a_starter_recipe_loads_as_it_is() {
    let folder = folder();
    for test in [Some("data/sums.test.jsonl".to_owned()), None] {
        let text = starter(&Starter { train: "data/sums.train.jsonl".into(), test, ..Starter::default() });
        let recipe = load_text(folder.path(), &text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(recipe.train.steps, 60);
    }
}

#[test]
fn an_option_of_a_part_that_is_named_alone_can_be_set() {
    let lines = small_and("[algorithm]\nestimator = \"returns\"\n");
    let recipe = load_text(folder().path(), &lines, &["algorithm.estimator.gamma=0.9"]).unwrap();
    assert!(matches!(recipe.algorithm.estimator, Estimator::Returns { gamma: 0.9, .. }));
}

#[test]
fn a_lone_rejection_is_a_list_of_one() {
    for lone in ["rejection = \"veto\"", "rejection = { kind = \"veto\", below = 1e-4 }"] {
        let recipe = load_text(folder().path(), &small_and(&format!("[algorithm]\n{lone}\n")), &[]);
        let recipe = recipe.unwrap_or_else(|e| panic!("{lone}: {e}"));
        assert_eq!(recipe.algorithm.rejection, [Rejection::Veto { below: 1e-4 }], "{lone}");
    }
    let words = refusal(&small_and("[algorithm]\nrejection = \"vteo\"\n"), &[]);
    assert!(words.contains("sums.toml:7") && words.contains("did you mean \"veto\"?"), "{words}");
    let words = refusal(&small_and("[algorithm]\nrejection = 3\n"), &[]);
    assert!(words.contains("must be a list") && words.contains("a name, as in \"mismatch\""), "{words}");
}

/// Every recipe of the repository is written for today's keys.
#[test]
fn the_recipes_of_the_repository_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let mut recipes: Vec<PathBuf> = std::fs::read_dir(&root)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    recipes.sort();
    assert!(!recipes.is_empty(), "no recipes in {}", root.display());
    for path in recipes {
        let recipe = Recipe::load(&path).unwrap_or_else(|e| panic!("{e}"));
        whet_recipe::data::train(&recipe.data).unwrap_or_else(|e| panic!("{e}"));
        whet_recipe::data::test(&recipe.data).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn the_schema_describes_each_key_for_editors() {
    let schema = schema();
    assert_eq!(schema["title"], "Whet recipe");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["model", "data"]));
    let rollout = &schema["$defs"]["Rollout"]["properties"]["samples-per-prompt"];
    assert_eq!((&rollout["default"], &rollout["minimum"]), (&8.into(), &1.into()));
    assert!(rollout["description"].as_str().unwrap().contains("group"));
}

#[test]
fn the_memory_estimate_follows_what_the_recipe_asks_for() {
    let smollm2 = ModelNumbers {
        parameters: 134_515_008,
        layers: 30,
        hidden_size: 576,
        intermediate_size: 1536,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        vocab_size: 49_152,
        adapter_parameters: 4_884_480,
        compute_bytes: 2,
    };
    let folder = folder();
    let total = |overrides: &[&str]| estimate(&smollm2, &load_text(folder.path(), STYLE, overrides).unwrap());
    let full = total(&[]);
    let part = |name: &str| full.parts.iter().find(|(n, _)| *n == name).map(|(_, bytes)| *bytes);
    assert_eq!(part("weights"), Some(2 * 134_515_008));
    assert_eq!(part("optimiser state"), Some(8 * 134_515_008));
    assert_eq!(part("reference model"), None);
    assert_eq!(whet_recipe::kv_bytes_per_token(&smollm2), 23_040);
    assert!(total(&["model.lora.rank=16"]).total() < full.total() - 12 * 100_000_000);
    // On a CPU forward has weights of its own and layers are always computed again.
    let checkpointing = "train.gradient-checkpointing=true";
    assert_eq!(part("forward weights"), Some(2 * 134_515_008));
    assert_eq!(total(&[checkpointing]), full);
    let on_gpu = total(&["model.device=cuda:0"]);
    assert!(on_gpu.parts.iter().all(|(name, _)| *name != "forward weights"));
    assert!(total(&["model.device=cuda:0", checkpointing]).total() < on_gpu.total());
    assert_eq!(total(&["algorithm.kl.coefficient=0.1"]).total(), full.total() + 2 * 134_515_008);
}
