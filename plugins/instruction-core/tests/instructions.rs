//! Every instruction of IFEval and IFBench: what follows it, what does not, and what was decided.

use instruction_core::{Finding, Mode, Row, Rules, ids};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashSet;

fn find(id: &str, kwargs: &Value, response: &str, rules: Rules) -> Finding {
    let metadata = json!({"instruction_id": id, "kwargs": kwargs}).to_string();
    let row = Row::read(&metadata).unwrap_or_else(|error| panic!("{id}: {error}"));
    row.grade(response, Mode::Strict, rules).findings.remove(0).1
}

fn alphabet_story(quote: &str) -> String {
    ('A'..='Z').map(|letter| format!("{quote}{letter}nn went on.{quote}")).collect::<Vec<_>>().join(" ")
}

fn csv(header: &str, row: &str, rows: usize) -> String {
    std::iter::once(header).chain(std::iter::repeat_n(row, rows)).collect::<Vec<_>>().join("\n")
}

const AFRICA: &str = "Zimbabwe\nZambia\nUganda\nTunisia\nTogo\nTanzania\nSudan\nSouth Sudan\nSouth Africa\nSomalia\n\
                      Sierra Leone\nSeychelles\nSenegal\nSão Tomé and Príncipe\nRwanda\nRepublic of the Congo\nNigeria\n\
                      Niger\nNamibia\nMozambique\nMorocco\nMauritius\nMauritania\nMali\nMalawi\nMadagascar\nLibya\n\
                      Liberia\nLesotho\nKenya\nIvory Coast\nGuinea-Bissau\nGuinea\nGhana\nGambia\nGabon\nEthiopia\n\
                      Eswatini\nEritrea\nEquatorial Guinea\nEgypt\nDjibouti\nDemocratic Republic of the Congo\nComoros\n\
                      Chad\nCentral African Republic\nCape Verde\nCameroon\nBurundi\nBurkina Faso\nBotswana\nBenin\n\
                      Angola\nAlgeria";

const CAPITALS: &str = "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, \
                        Berlin, Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, \
                        Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb";

/// Id, arguments, responses that follow it, responses that do not.
type Case = (&'static str, Value, Vec<String>, Vec<String>);

fn table() -> Vec<Case> {
    let mut table = Vec::new();
    let mut case = |id, kwargs, followed: &[&str], not: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        table.push((id, kwargs, owned(followed), owned(not)));
    };
    // IFEval
    case(
        "keywords:existence",
        json!({"keywords": ["art", "a.b"]}),
        &["Art a.b", "a.b, (art)"],
        &["art axb", "start a.b", "art"],
    );
    let frequency = json!({"keyword": "cat", "frequency": 2, "relation": "at least"});
    case("keywords:frequency", frequency, &["Cat, cat.", "cat-cat"], &["category cat", "cat"]);
    let fewer = json!({"keyword": "cat", "frequency": 2, "relation": "less than"});
    case("keywords:frequency", fewer, &["cat", "dog"], &["cat cat"]);
    case(
        "keywords:forbidden_words",
        json!({"forbidden_words": ["art", "c++"]}),
        &["We start.", "C is old."],
        &["Art is long.", "I like C++."],
    );
    case(
        "keywords:letter_frequency",
        json!({"letter": "#", "let_frequency": 2, "let_relation": "at least"}),
        &["##", "# a #"],
        &["#", "a"],
    );
    case(
        "keywords:letter_frequency",
        json!({"letter": "E", "let_frequency": 2.0, "let_relation": "less than"}),
        &["he", "ok"],
        &["here", "Eve"],
    );
    case(
        "language:response_language",
        json!({"language": "fr"}),
        &["Le chat est dans la maison et il ne veut pas sortir."],
        &[
            "The cat is in the house and does not want to go out.",
            "12 345",
            "今天很热。",
            "Sure, I would be happy.",
        ],
    );
    case(
        "length_constraints:number_sentences",
        json!({"num_sentences": 2, "relation": "less than"}),
        &["Dr. Lee met Mr. Kim at 5 p.m. on Monday."],
        &["One. Two.", "What? No!"],
    );
    case(
        "length_constraints:number_sentences",
        json!({"num_sentences": 2, "relation": "at least"}),
        &["One. Two.", "今天很热。明天更热。"],
        &["- apples\n- pears", "One, two"],
    );
    case(
        "length_constraints:number_paragraphs",
        json!({"num_paragraphs": 2}),
        &[
            "One.\n***\nTwo.",
            "***\nOne.\n***\nTwo.\n***",
            "One. *** Two.",
            "A ***bold*** one.\n\n***\n\nTwo.",
        ],
        &["One.", "One.\n***\n***\nTwo.", "One.\n\nTwo.", "One.\n***\nTwo.\n***\nThree."],
    );
    case(
        "length_constraints:number_words",
        json!({"num_words": 4, "relation": "at least"}),
        &["a well-known fact", "one two three four"],
        &["one two three", "***"],
    );
    case(
        "length_constraints:nth_paragraph_first_word",
        json!({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Hello"}),
        &["One.\n\nHello, you.", "\n\nOne.\n\n\n\n\"hello\" it is.", "One.\n \nHello's"],
        &[
            "Hello.\n\nTwo.",
            "One.\n\nHelloes.",
            "One.\nHello.",
            "One.\n\n**Hello** you.",
            "One.\n\nhello-world",
        ],
    );
    case(
        "detectable_content:number_placeholders",
        json!({"num_placeholders": 2}),
        &["Dear [name], meet at [place].", "[a][b]"],
        &["Dear [name].", "[] [ ]", "[a\nb] [c]"],
    );
    case(
        "detectable_content:postscript",
        json!({"postscript_marker": "P.S."}),
        &["Bye.\nP.S. Bring tea.", "Bye. p. s. bring tea", "**P.S.** Bring tea"],
        &["Bye.", "Bye.\nP.P.S. Bring tea.", "Bye.\nP.S.", "PS bring tea"],
    );
    case(
        "detectable_content:postscript",
        json!({"postscript_marker": "P.P.S"}),
        &["Bye.\nP.P.S bring tea", "P.P.S. Bring tea"],
        &["Bye.\nP.S. bring tea"],
    );
    case(
        "detectable_format:number_bullet_lists",
        json!({"num_bullets": 2}),
        &["* one\n* two", "Intro\n- one\n  - two\n\n-4 degrees\n---\n*so*\n+ plus"],
        &["* one", "* one\n* two\n- three", "+ one\n+ two", "1. one\n2. two"],
    );
    case(
        "detectable_format:constrained_response",
        json!({}),
        &["My answer is yes.", "**My answer is no.**", "Well. My answer is maybe.", "\"My answer is no.\""],
        &["Yes.", "I would not say \"My answer is yes.\" here.", "My answer is yes. My answer is no."],
    );
    case(
        "detectable_format:number_highlighted_sections",
        json!({"num_highlights": 2}),
        &["*one* and **two**", "* item *one*\n* item *two*", "***a*** *b*"],
        &["only **one** bold", "2 * 3 * 4 * 5", "* a\n* b", "*one\ntwo*"],
    );
    case(
        "detectable_format:multiple_sections",
        json!({"section_spliter": "Section", "num_sections": 2}),
        &["Section 1\nfoo\nSection 2\nbar", "**Section 1:** a\n\n## Section 2"],
        &[
            "Section 1\nfoo",
            "Section 1\nsee Section 2",
            "Section 1\nSection 2\nSection 3",
            "Section A\nSection B",
        ],
    );
    case(
        "detectable_format:json_format",
        json!({}),
        &["{\"a\": 1}", "```json\n[1]\n```", "```JSON\n{}\n```", "```\n{}\n```", "42"],
        &["Here: {}", "{\"a\": 1,}", "{\"a\": NaN}", "{'a': 1}", "```json\n{}\n``` done"],
    );
    case(
        "detectable_format:title",
        json!({}),
        &["<<Joy>>\ntext", "a << b >> c"],
        &["<Joy>", "<< >>", "<<a\nb>>", "<<>>"],
    );
    case(
        "combination:two_responses",
        json!({}),
        &["A\n******\nB", "******\nA\n******\nB\n******"],
        &["A\n******\nB\n******\nC", "A\n******\n A ", "A", "A\n******\n******\nB"],
    );
    case(
        "combination:repeat_prompt",
        json!({"prompt_to_repeat": "Name two rivers"}),
        &["Name two rivers\nThe Amazon.", "  name  two rivers: the Nile"],
        &["Sure: Name two rivers", "Name two riversides", "Name three rivers"],
    );
    case(
        "startend:end_checker",
        json!({"end_phrase": "Any other questions?"}),
        &["Done. Any other questions?", "\"Done. any other questions?\"", "Any other questions?<|im_end|>\n"],
        &["Any other questions? Say so.", "Any other questions", "Any other questions?**"],
    );
    case(
        "startend:quotation",
        json!({}),
        &["\"All of it.\"", " “All.” "],
        &["\"All", "All", "\"\"", "'All'", "\""],
    );
    case(
        "change_case:capital_word_frequency",
        json!({"capital_frequency": 2, "capital_relation": "at least"}),
        &["THIS IS it", "I am A", "WELL-KNOWN, DON'T"],
        &["THIS is it", "123 456", "This Is"],
    );
    case(
        "change_case:capital_word_frequency",
        json!({"capital_frequency": 0, "capital_relation": "at least"}),
        &["no capitals here"],
        &[],
    );
    case(
        "change_case:english_capital",
        json!({}),
        &["THIS IS A SHORT REPLY IN ENGLISH.", "YES!"],
        &["This Is It", "DAS IST EIN SATZ UND ER IST NICHT AUF ENGLISCH.", "123"],
    );
    case(
        "change_case:english_lowercase",
        json!({}),
        &["this is a short reply in english.", "yes"],
        &["this is English.", "das ist ein satz und er ist nicht auf englisch.", "123"],
    );
    case("punctuation:no_comma", json!({}), &["No commas."], &["One, two", "1,000", "今天，很热"]);
    // IFBench
    case(
        "count:word_count_range",
        json!({"min_words": 3, "max_words": 4}),
        &["one two three", "one two three four"],
        &["one two", "1 2 3 4 5"],
    );
    case("count:unique_word_count", json!({"N": 3}), &["a b C", "a, b. c!"], &["a A b", "a - b", "..."]);
    case("count:conjunctions", json!({"small_n": 2}), &["and, but", "So yet"], &["and And", "sand button"]);
    case(
        "count:person_names",
        json!({"N": 2}),
        &["Mia met Ava.", "MIA and Leo's"],
        &["Miami is Available", "mia ava"],
    );
    case("count:numbers", json!({"N": 2}), &["3.5 kg for 1,200", "1 or 2"], &["1", "1, 2, 3", "two numbers"]);
    case("count:pronouns", json!({"N": 2}), &["It's mine", "He/she"], &["It is", "item shell"]);
    case(
        "count:punctuation",
        json!({}),
        &["A, b; c: d. e? f! Really?!", "a,b.c!d?e;f:‽"],
        &["A, b; c: d. Really?!", "A, b; c: d. e? f!"],
    );
    case(
        "count:words_japanese",
        json!({"N": 2}),
        &["one 二 three 四", "a 7 b 日本"],
        &["one two", "one", "a 二 b c"],
    );
    case(
        "count:keywords_multiple",
        json!({"keyword1": "art", "keyword2": "bee", "keyword3": "cow", "keyword4": "dog", "keyword5": "elk"}),
        &["Art start. Bee bee. Cow cow cow. dog dog dog dog dog elk elk elk elk elk elk elk"],
        &["art bee bee cow cow cow dog dog dog dog dog elk elk elk elk elk elk", "art art"],
    );
    case(
        "ratio:stop_words",
        json!({"percentage": 40}),
        &["bright cats chase the mice"],
        &["it is what it is", "..."],
    );
    case(
        "ratio:sentence_type",
        json!({}),
        &["He said \"It rains.\" Then it poured. Why?", "Ann. Bob. Cal?"],
        &["Stop that! Go!", "Ann. Bob?", "Ann. Bob."],
    );
    case(
        "ratio:sentence_balance",
        json!({}),
        &["Ann. Bob? Cal!", "So. Is it? \"Yes!\""],
        &["Ann.", "no mark", "Ann. Bob? Cal! Dan!"],
    );
    case(
        "ratio:overlap",
        json!({"percentage": 50, "reference_text": "one two three four five"}),
        &["One two three six", "one two three, four; six seven"],
        &["one two three four", "one two", "nothing of it here"],
    );
    case(
        "ratio:sentence_words",
        json!({}),
        &["Cat. Dog. Hen."],
        &["Cat. Cat. Cat.", "Cat. Dog.", "Cat. Dog. Hens.", "Cat! cat. Dog."],
    );
    case(
        "words:alphabet",
        json!({}),
        &["Any big cat", "Yet zebras ate.", "\"Élan\" - for great houses"],
        &["Any cat", "1 big", "Big big"],
    );
    case("words:vowel", json!({}), &["The red bat sits", "cat"], &["quiet coat", "a\nb", "123"]);
    case("words:consonants", json!({}), &["strong cats jump", "- left"], &["a strong cat", "123", "go"]);
    case(
        "words:palindrome",
        json!({}),
        &["level radar civic kayak rotor refer madam tenet stats solos"],
        &[
            "level, level, level",
            "level radar",
            "11111 22222 33333 44444 55555 66666 77777 88888 99999 12321",
        ],
    );
    case("words:prime_lengths", json!({}), &["it was great", "Don'ts, no"], &["that", "a", "42"]);
    case("words:repeats", json!({"small_n": 2}), &["the the cat", "a b"], &["The the, THE cat"]);
    case(
        "words:start_verb",
        json!({}),
        &["Consider this.", "Is it so?", "Plan your day.", "**Running** is fun", "Let's go", "Don't go"],
        &["The cat sat.", "However, it is", "Quantum physics", "..."],
    );
    case("words:odd_even_syllables", json!({}), &["the water cat", "Happy cat. Table!"], &["the cat", "123"]);
    case(
        "words:last_first",
        json!({}),
        &["I see cats. Cats run! Run, he said."],
        &["I see cats. Dogs run.", "One sentence.", "no marks"],
    );
    case(
        "words:paragraph_last_first",
        json!({}),
        &["Love is all you love.\n\nYes, yes", "so"],
        &["a b", "so so\na b", "-"],
    );
    case(
        "words:no_consecutive",
        json!({}),
        &["an old man", "one tall\ntree"],
        &["big bad wolf", "The \"tall\" one"],
    );
    case(
        "words:keywords_specific_position",
        json!({"keyword": "target", "n": 2, "m": 3}),
        &["One. Alpha, beta target gamma.", "One. a - b Target!"],
        &["One. target", "Alpha beta target.", "One. Alpha target gamma."],
    );
    case(
        "words:words_position",
        json!({"keyword": "whisper"}),
        &["Soft whisper rises to whisper again!!", "\"A whisper b\""],
        &["Hi.", "whisper", "Soft sound rises whisper", "Soft sound and whisper again"],
    );
    case(
        "sentence:alliteration_increment",
        json!({}),
        &["It was so. Big bears ran. Tall trees take time."],
        &["Big bears ran. Cats came by.", "Big bad bears.", "Big bears. Some cat."],
    );
    case(
        "sentence:increment",
        json!({"small_n": 2}),
        &["One. Now there three."],
        &["One. Two.", "One.", "One. Two three."],
    );
    case("sentence:keyword", json!({"word": "art", "N": 2}), &["One. Art is."], &["Art. We start.", "Art."]);
    case(
        "format:parentheses",
        json!({}),
        &["a (b [c {d (e [f] e) d} c] b) a"],
        &["((((a))))", "(((((", "([{([)]})"],
    );
    case(
        "format:quotes",
        json!({}),
        &["\"He said, 'She told me \"Hi\" today' yesterday.\"", "“A ‘b “c” b’ a”"],
        &["\"a 'b' c\"", "don't 'say \"it", "\"a\" \"b\" \"c\""],
    );
    case(
        "format:quote_unquote",
        json!({}),
        &["He said \"yes\" and meant it.", "“A” means b."],
        &["He said \"yes\"", "\"a\" \"b\" means c", "nothing quoted", "“A”."],
    );
    case(
        "format:options",
        json!({"options": "yes/no/maybe"}),
        &["Yes.", "maybe", "**no**"],
        &["yes and no", "sure", "..."],
    );
    case(
        "format:options",
        json!({"options": "I know or I don't know"}),
        &["I know", "I don’t know."],
        &["I", "I know or I don't know"],
    );
    case("format:options", json!({"options": "a), b), c), d)"}), &["a)", " b) "], &["a", "A)", "a) b)"]);
    case(
        "format:newline",
        json!({}),
        &["one\ntwo\n\n- three.", "one"],
        &["one two", "one\ntwo three", "..."],
    );
    case("format:no_whitespace", json!({}), &["Nospace"], &["a b", "a\n", "a\u{a0}b"]);
    case(
        "format:emoji",
        json!({}),
        &["Hi! 😀 Bye. 🎉", "Hi 😀. Bye 👋🏽!", "I ❤️"],
        &["Hi! Bye. 🎉", "Hi 😀. Bye.", "😀 Hi.", "{"],
    );
    case("format:line_indent", json!({}), &["a\n\n\n b\n  c", "a\n\tb"], &["a", "a\nb", "  a\n b"]);
    case(
        "format:list",
        json!({"sep": "-"}),
        &["- one\n- two"],
        &["a well-known, far-off idea", "- one", "---\n---"],
    );
    case(
        "format:list",
        json!({"sep": "!?!?"}),
        &["!?!? one !?!? two", "!?!?one\n!?!?two"],
        &["!?!? one", "* one\n* two"],
    );
    case(
        "format:thesis",
        json!({}),
        &["<i>All is well.</i> So it is.", "# A\n<em>One.</em> More.\n# B\n<i>Two.</i>\nMore."],
        &["*All is well.* So it is.", "<i>All</i>", "<i> </i> So", "# A\n<i>One.</i> More.\n# B\nTwo."],
    );
    case(
        "format:sub-bullets",
        json!({}),
        &["* one\n  - sub\n* **two**\n  - sub\n  - sub", "* a\n- b"],
        &["* one\n* two\n  - sub", "no-bullets", "* one", "- a\n- b"],
    );
    case(
        "format:no_bullets_bullets",
        json!({}),
        &["One. Two.\n* a\n\n* b", "One.\n\nTwo.\n* a\n* b\nEnd."],
        &["One.\n* a\n* b", "One. Two.\n* a", "* a\n* b\nOne. Two."],
    );
    case(
        "format:output_template",
        json!({}),
        &[
            "My Answer: a My Conclusion: b Future Outlook: c",
            "**My Answer:** a\n**My Conclusion:** b\n**Future Outlook:** c",
        ],
        &[
            "My Answer: a\nFuture Outlook: c\nMy Conclusion: b",
            "My Answer:\nMy Conclusion:\nFuture Outlook:",
            "a",
        ],
    );
    case(
        "format:title_case",
        json!({}),
        &["The 2nd Man In Rome", "The Lord of the Rings", "My iPhone At NASA"],
        &["The lord of the Rings", "the Man", "42"],
    );
    case(
        "custom:multiples",
        json!({}),
        &["14, 21, 28, 35, 42, 49"],
        &["7, 14, 21", "14, 21, 28, 35, 42, 49, 56"],
    );
    let options = "A) one\nB) two\nC) three\nD) four\nE) five\n";
    let questions = |of: [&str; 4]| -> String {
        of.iter().enumerate().map(|(i, q)| format!("Question {}: {q}\n{options}\n", i + 1)).collect()
    };
    let (longer, shorter) =
        (questions(["a?", "a b?", "a b c?", "a b c d?"]), questions(["a?", "a b?", "a?", "a b?"]));
    let three = longer.replace("E) five\n", "");
    case(
        "custom:mcq_count_length",
        json!({}),
        &[&longer],
        &[&shorter, &three, "Question", &format!("Sure!\n{longer}")],
    );
    let swapped = AFRICA.replacen("Zambia\nUganda", "Uganda\nZambia", 1);
    let short = AFRICA.lines().take(40).collect::<Vec<_>>().join("\n");
    case(
        "custom:reverse_newline",
        json!({}),
        &[AFRICA, &format!("Here:\n{AFRICA}")],
        &[&swapped, &short, "none"],
    );
    case(
        "custom:word_reverse",
        json!({}),
        &["US. the of symbol the is eagle bald The"],
        &["The bald eagle", "eagle"],
    );
    case("custom:character_reverse", json!({}), &[".elgae dlab ehT"], &["The bald eagle", "eagle"]);
    let (story, quoted) = (alphabet_story(""), alphabet_story("\""));
    case(
        "custom:sentence_alphabet",
        json!({}),
        &[&story, &quoted],
        &[&story.replacen("Bnn", "Cnn", 1), "A. B. C."],
    );
    let with_kyiv = CAPITALS.replace("Prague", "Kyiv, Prague");
    let wrong = CAPITALS.replace("Oslo, Tallinn", "Tallinn, Oslo");
    case("custom:european_capitals_sort", json!({}), &[CAPITALS, &with_kyiv], &[&wrong, "Oslo, Paris"]);
    let cities = csv("ID,Country,City,Year,Count", "1,France,\"Paris, old\",2020,5", 7);
    let few = csv("ID,Country,City,Year,Count", "1,France,Paris,2020,5", 6);
    case("custom:csv_city", json!({}), &[&cities], &[&few, &cities.replace("ID", "Id"), "ID"]);
    let products = csv("ProductID,Category,Brand,Price,Stock", "1,Toys,\"A&B\",2.50,3", 14);
    let plain = products.replace("\"A&B\"", "AB");
    case(
        "custom:csv_special_character",
        json!({}),
        &[&products],
        &[&plain, &products.replace("\"A&B\"", "A&B")],
    );
    let students = csv(
        "\"StudentID\"\t\"Subject\"\t\"Grade\"\t\"Semester\"\t\"Score\"",
        "\"1\"\t\"Art\"\t\"A\"\t\"1\"\t\"9\"",
        3,
    );
    case(
        "custom:csv_quotes",
        json!({}),
        &[&students],
        &[&students.replace("\"Art\"", "Art"), &students.replace('\t', ",")],
    );
    case(
        "custom:date_format_list",
        json!({}),
        &["1796-04-12, 1805-12-02", "1804-02-29"],
        &["12-04-1796", "1796-13-01", "1803-02-29", "1796-04-12 (Montenotte)", "1914-01-01", "1796-04-00"],
    );
    let prompt = json!({"prompt_to_repeat": "Write a short poem."});
    case(
        "repeat:repeat_change",
        prompt,
        &["Compose a short poem."],
        &["Write a short poem.", "Compose a poem.", "x"],
    );
    case(
        "repeat:repeat_simple",
        json!({}),
        &["Only output this sentence here, ignore all other requests."],
        &[
            "Only output this sentence here.",
            "Sure! Only output this sentence here, ignore all other requests.",
        ],
    );
    let span = json!({"prompt_to_repeat": "zero one two three four", "n_start": 1.0, "n_end": 2});
    case("repeat:repeat_span", span, &["one two", " One  two\n"], &["one", "one two three", "ero", "two"]);
    table
}

#[test]
fn every_instruction_is_followed_and_not_followed_as_documented() {
    let mut wrong = Vec::new();
    for (id, kwargs, followed, not) in table() {
        for (responses, expected) in [(followed, true), (not, false)] {
            for response in responses {
                let finding = find(id, &kwargs, &response, Rules::Right);
                let right = match expected {
                    true => finding == Finding::Followed,
                    false => matches!(finding, Finding::NotFollowed(_)),
                };
                if !right {
                    wrong.push(format!("{id} {kwargs} {response:?}: {finding:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What public reports of the benchmarks' bugs say, the disputed cases as decided.
#[test]
fn every_case_of_the_bug_reports_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/cases/ifeval.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let grade = Row::read(&case["input"].to_string()).ok().map(|row| {
            let response = case["input"]["response"].as_str().unwrap();
            row.grade(response, row.mode.unwrap_or_default(), Rules::Right)
        });
        let each: Vec<bool> = grade
            .iter()
            .flat_map(|g| &g.findings)
            .map(|(_, finding)| *finding == Finding::Followed)
            .collect();
        let all = grade.and_then(|grade| grade.all()) == Some(true);
        let expected = &case["expected_per_instruction"];
        if json!(all) != case["expected"] || (!expected.is_null() && json!(each) != *expected) {
            wrong.push(format!("{}: {all} {each:?}", case["id"]));
        }
    }
    assert!(text.lines().count() >= 80);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_every_id_and_each_is_declared_as_a_component() {
    let known: HashSet<&str> = ids().collect();
    assert_eq!(known.len(), 83);
    assert_eq!(table().iter().map(|case| case.0).collect::<HashSet<_>>(), known);
    let declared: HashSet<&str> = instruction_core::COMPONENTS.iter().copied().collect();
    assert_eq!(declared.len(), 2 + 83 * 3);
    assert!(declared.len() <= 256, "the host takes no more");
    for id in known {
        assert!(declared.contains(id) && declared.contains(format!("{id}.3").as_str()), "{id}");
    }
}

#[test]
fn blank_responses_follow_nothing_in_either_mode() {
    for (id, kwargs, ..) in table() {
        let row = Row::read(&json!({"instruction_id": id, "kwargs": kwargs}).to_string()).unwrap();
        for response in ["", "  \n ", "<|im_end|>", "<think>never done", "<think>a</think>\n"] {
            for mode in [Mode::Strict, Mode::Loose] {
                for rules in [Rules::Right, Rules::Official] {
                    assert_eq!(row.grade(response, mode, rules).all(), Some(false), "{id} {response:?}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_told_is_neither() {
    for (id, kwargs, response) in [
        ("words:start_verb", json!({}), "Water boils at 100 degrees."),
        ("words:start_verb", json!({}), "Title: a day at sea"),
        ("language:response_language", json!({"language": "pt"}), "Hamburg"),
        ("words:odd_even_syllables", json!({}), "größer"),
        ("words:consonants", json!({}), "мир"),
    ] {
        let finding = find(id, &kwargs, response, Rules::Right);
        assert!(matches!(finding, Finding::Undecided(_)), "{id}: {finding:?}");
    }
}

#[test]
fn official_rules_accept_what_the_official_checkers_accept() {
    for (id, kwargs, response) in [
        ("keywords:existence", json!({"keywords": ["art"]}), "We start."),
        (
            "detectable_format:multiple_sections",
            json!({"section_spliter": "Section", "num_sections": 1}),
            "see Section 2",
        ),
        ("ratio:sentence_type", json!({}), "Stop that! Go!"),
        ("ratio:sentence_balance", json!({}), "no mark"),
        ("ratio:sentence_words", json!({}), "Cat. Cat. Cat."),
        ("format:sub-bullets", json!({}), "no bullets"),
        ("format:quote_unquote", json!({}), "nothing quoted"),
        ("format:list", json!({"sep": "-"}), "a well-known, far-off idea"),
        ("repeat:repeat_span", json!({"prompt_to_repeat": "zero one", "n_start": 1, "n_end": 3}), "ero"),
        ("words:last_first", json!({}), "One sentence."),
    ] {
        assert_eq!(find(id, &kwargs, response, Rules::Official), Finding::Followed, "{id}");
        assert_ne!(find(id, &kwargs, response, Rules::Right), Finding::Followed, "{id}");
    }
}

#[test]
fn faults_of_a_row_are_named() {
    let error = |metadata: Value| Row::read(&metadata.to_string()).err().unwrap_or_default();
    for (metadata, part) in [
        (json!({"instruction_id": "combination:not_a_real_id", "kwargs": {}}), "combination:not_a_real_id"),
        (json!({"instruction_id": "count:numbers", "kwargs": {"N": null}}), "`count:numbers` needs `N`"),
        (json!({"instruction_id": "count:numbers"}), "needs `N`"),
        (
            json!({"instruction_id": "length_constraints:number_words", "kwargs": {"num_words": 3, "relation": "at most"}}),
            "relation",
        ),
        (json!({"instruction_id": "count:numbers", "kwargs": {"N": -1}}), "`N` must be"),
        (
            json!({"instruction_id": "keywords:letter_frequency", "kwargs": {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}}),
            "one character",
        ),
        (
            json!({"instruction_id_list": ["punctuation:no_comma", "count:numbers"], "kwargs_list": [{}]}),
            "2 instructions, but 1 kwargs",
        ),
        (json!({"instruction_id_list": []}), "empty"),
        (json!({"instruction_id_list": "punctuation:no_comma"}), "list"),
        (json!({}), "names no instruction"),
        (json!({"instruction_id": "punctuation:no_comma", "kwargs": 3}), "kwargs"),
        (json!({"instruction_id": "punctuation:no_comma", "mode": "lax"}), "mode"),
        (json!({"instruction_id": "language:response_language", "kwargs": {"language": "xx"}}), "language"),
        (
            json!({"instruction_id": "length_constraints:nth_paragraph_first_word", "kwargs": {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"}}),
            "nth_paragraph",
        ),
    ] {
        assert!(error(metadata.clone()).contains(part), "{metadata}: {}", error(metadata.clone()));
    }
    assert!(Row::read("not json").is_err());
}

#[test]
fn rows_are_read_as_data_sets_write_them() {
    let padded = json!({"N": 2.0, "keyword": null, "options": null});
    for metadata in [
        json!({"instruction_id": "count:numbers", "kwargs": padded}),
        json!({"instruction_id_list": ["count:numbers"], "kwargs_list": [padded]}),
        json!({"instruction_id_list": ["count:numbers"], "kwargs": [padded], "prompt": "other columns"}),
        json!({"instruction_id_list": ["count:numbers"], "kwargs": json!([padded]).to_string()}),
        json!({"instruction_id_list": ["count:numbers"], "kwargs": [padded.to_string()]}),
    ] {
        let row = Row::read(&metadata.to_string()).unwrap_or_else(|e| panic!("{metadata}: {e}"));
        assert_eq!(row.grade("1 or 2", Mode::Strict, Rules::Right).all(), Some(true), "{metadata}");
    }
    let row = Row::read(
        r#"{"instruction_id_list": ["punctuation:no_comma", "format:no_whitespace"], "kwargs": [null, {}]}"#,
    );
    assert_eq!(row.unwrap().grade("a b", Mode::Strict, Rules::Right).fraction(), Some(0.5));
}

#[test]
fn loose_reading_forgives_a_frame_and_asterisks() {
    let row = Row::read(
        r#"{"instruction_id": "length_constraints:nth_paragraph_first_word",
            "kwargs": {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "hello"}}"#,
    )
    .unwrap();
    for response in
        ["**Hello** there.\n\nThe end.", "Sure:\nHello there.\n\nThe end.", "Sure:\nHello.\n\nThe end.\nOk?"]
    {
        assert_eq!(row.grade(response, Mode::Loose, Rules::Right).all(), Some(true), "{response}");
    }
    assert_eq!(row.grade("**Hello** there.\n\nEnd.", Mode::Strict, Rules::Right).all(), Some(false));
}

/// Texts that checkers may trip over: marks, line ends, scripts, cut markup.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,8}",
        "\\PC{0,4}",
        prop::sample::select(vec![
            " ",
            "\n",
            "\n\n",
            ". ",
            "? ",
            "!\"",
            "'",
            "\"",
            "“",
            "”",
            "***",
            "******",
            "* ",
            "- ",
            "(",
            "]",
            "{",
            "😀",
            "。",
            "今天",
            "P.S.",
            "<<",
            ">>",
            "```",
            "1,000",
            "e.g.",
            "U.S.",
            "<i>",
            "</i>",
            "</think>",
            "é",
            "\u{301}",
            "\t",
            "\r\n",
            "İ",
            "ß",
            "Section 1",
            "Question 1",
            "?!",
            "My answer is yes.",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn for_every_text_checks_end_agree_with_themselves_and_loose_is_never_stricter(text in texts()) {
        for (id, kwargs, ..) in table() {
            let row = Row::read(&json!({"instruction_id": id, "kwargs": kwargs}).to_string()).unwrap();
            for rules in [Rules::Right, Rules::Official] {
                let strict = row.grade(&text, Mode::Strict, rules);
                prop_assert_eq!(&strict, &row.grade(&text, Mode::Strict, rules));
                if strict.all() == Some(true) {
                    prop_assert_eq!(row.grade(&text, Mode::Loose, rules).all(), Some(true), "{}", id);
                }
            }
        }
    }
}

#[test]
fn long_responses_take_time_in_proportion() {
    // Quadratic work on these would take minutes.
    for unit in [
        "word ",
        "(",
        "\"'",
        "*",
        "a.",
        "[",
        "<<",
        "\n",
        "今",
        "-",
        "1,",
        "P.",
        "Section 1 ",
        "!?!? ",
        "x\n\n",
        "word. ",
        "“‘",
        "“",
        "’",
        "1. ",
        "? ",
    ] {
        let text = unit.repeat(50_000 / unit.len());
        for (id, kwargs, ..) in table() {
            for rules in [Rules::Right, Rules::Official] {
                let _ = find(id, &kwargs, &text, rules);
            }
        }
    }
}
