//! Which language a text is written in, by ISO 639-1 code.
//!
//! Where a script has one language, the script tells. Languages that share one are told by letters and
//! function words of their own, else by trigrams (`whatlang`). A verdict says whether it is sure: a few
//! words may belong to several languages.

use std::collections::HashMap;
use whatlang::{Detector, Lang};

/// A language, and whether there is no doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// ISO 639-1.
    pub code: &'static str,
    /// The text holds enough to tell.
    pub sure: bool,
}

/// The first letters of blocks whose script means one language.
const SCRIPTS: &[(u32, u32, &str)] = &[
    (0x0041, 0x024F, "latin"),
    (0x1E00, 0x1EFF, "latin"),
    (0x0370, 0x03FF, "el"),
    (0x1F00, 0x1FFF, "el"),
    (0x0530, 0x058F, "hy"),
    (0x0590, 0x05FF, "he"),
    (0x0600, 0x06FF, "arabic"),
    (0x0750, 0x077F, "arabic"),
    (0xFB50, 0xFDFF, "arabic"),
    (0xFE70, 0xFEFF, "arabic"),
    (0x0900, 0x097F, "devanagari"),
    (0x0980, 0x09FF, "bn"),
    (0x0A00, 0x0A7F, "pa"),
    (0x0A80, 0x0AFF, "gu"),
    (0x0B00, 0x0B7F, "or"),
    (0x0B80, 0x0BFF, "ta"),
    (0x0C00, 0x0C7F, "te"),
    (0x0C80, 0x0CFF, "kn"),
    (0x0D00, 0x0D7F, "ml"),
    (0x0D80, 0x0DFF, "si"),
    (0x0E00, 0x0E7F, "th"),
    (0x0E80, 0x0EFF, "lo"),
    (0x1000, 0x109F, "my"),
    (0x10A0, 0x10FF, "ka"),
    (0x1200, 0x137F, "am"),
    (0x1780, 0x17FF, "km"),
    (0x0400, 0x052F, "cyrillic"),
    (0x3040, 0x30FF, "ja"),
    (0x3400, 0x9FFF, "zh"),
    (0xF900, 0xFAFF, "zh"),
    (0x20000, 0x3FFFF, "zh"),
    (0x1100, 0x11FF, "ko"),
    (0x3130, 0x318F, "ko"),
    (0xAC00, 0xD7AF, "ko"),
];

/// Frequent words that hardly occur in the other languages of the list.
const FUNCTION_WORDS: &[(&str, &str)] = &[
    (
        "en",
        "the and of to in is that it was for on are as with his they at be this have from or had by but what all \
            were we when your can said there an each which she do how their if will up other about out many then them \
            these so some her would make like him into has more you not i my our no should could because just than \
            who its only also been after first over where most through",
    ),
    (
        "es",
        "el los las una del que y en por con para es lo como más pero sus su al le ha este sí porque esta entre \
            cuando muy sin sobre también hasta hay donde quien desde todo nos durante todos uno les ni otros ese eso \
            ante ellos está fue son usted yo muchos",
    ),
    (
        "pt",
        "o os as um uma do da dos das em no na não por com para é mas ao pelo pela são como mais foi ele ela seu \
            sua ou quando muito nos já eu também só até isso entre depois sem mesmo aos seus quem nas me esse eles \
            você está nós isto",
    ),
    (
        "fr",
        "le les des du et est une dans que qui pour pas sur au avec ce il elle sont plus par je nous vous ne \
            cette mais ou son ses leur aux été comme être fait tout même aussi bien sans peut où ces deux entre \
            très avoir c'est",
    ),
    (
        "de",
        "der die das und ist nicht ein eine zu den mit sich des auf für von dem im als auch es an werden aus er \
            hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor \
            zur bis mehr durch man sein wurde ich wir kann",
    ),
    (
        "it",
        "il lo gli della di che è un una per non sono del con le nel si da alla più come anche ma dei delle ha \
            questo questa essere degli ed al dal nella sua suo ci loro stato o dopo due molto quando perché tutti se \
            sulla hanno",
    ),
    (
        "pl",
        "i w na z się nie do to że jest o jak po co tak za od jego ale czy przez dla są oraz tym być tego które \
            może który ich przy bardzo już gdy jako tylko jej te był ma lub ze jednak także pod",
    ),
    (
        "vi",
        "là và của có được trong cho không với một các những này đã người khi để từ về như đến cũng ra nhưng ở \
            vào làm rất nhiều tôi bạn theo sẽ bị nó hay",
    ),
    (
        "fi",
        "on ja ei se että oli hän mutta ovat joka kun niin myös mitä tai kuin olla sen minä ole jos tämä kaikki \
            vain sitä nyt jo voi siitä siellä ovat mukaan sekä hänen vielä ne minun mikä kanssa",
    ),
    (
        "sw",
        "na ya wa kwa ni za katika la kuwa hii cha yake kama au hiyo wake hivyo watu lakini pia zaidi sana huyo \
            yao ili kuna bila mtu hata moja hizo wao yetu kila nchi baada alikuwa siku kwamba ambayo vya",
    ),
    (
        "nl",
        "de het een en van ik te dat die in je niet zijn is was op aan met als voor had er maar om hem dan zou \
            wat mijn men dit zo door over ze zich bij ook tot uit kan nog naar heeft worden deze wordt",
    ),
    (
        "sv",
        "och att det som en på är av för med den till inte har om ett men var jag från så kan när eller också \
            vid mot ska hade efter finns där han hon vi",
    ),
    (
        "id",
        "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena tersebut bisa ada mereka \
            lebih kata tahun atau saat oleh sudah kami seperti adalah",
    ),
    (
        "tr",
        "ve bir bu da de için ile çok daha olarak olan gibi en ne kadar o sonra ama ki değil var her mi ben",
    ),
];

/// The script that a language is written in: its own code where it has one to itself.
fn script_of(code: &str) -> &str {
    match code {
        "ar" | "fa" | "ur" => "arabic",
        "hi" | "mr" | "ne" => "devanagari",
        "ru" | "uk" | "bg" | "be" | "mk" | "sr" => "cyrillic",
        "yi" => "he",
        code if SCRIPTS.iter().any(|(_, _, script)| *script == code) => code,
        _ => "latin",
    }
}

/// Whether a text is written in a language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is.
    Yes,
    /// It is in another one, or in none.
    No(Option<&'static str>),
    /// It may be, and it may be in this other one.
    Perhaps(&'static str),
}

/// Whether `text` is in the language `wanted`.
pub fn is_in(text: &str, wanted: &str) -> Written {
    let Some(known) = tell(text) else { return Written::No(None) };
    if known.code == wanted {
        return Written::Yes;
    }
    let apart = known.sure || script_of(known.code) != script_of(wanted) || {
        // None of its frequent words is there, and one of the other language's is.
        let counts = hits(&text.to_lowercase());
        let of =
            |code: &str| FUNCTION_WORDS.iter().position(|(known, _)| *known == code).map(|at| counts[at]);
        of(wanted) == Some(0) && of(known.code).is_some_and(|count| count > 0)
    };
    if apart { Written::No(Some(known.code)) } else { Written::Perhaps(known.code) }
}

/// How many of the first words are frequent ones of each language in the list, in its order.
fn hits(lower: &str) -> [usize; FUNCTION_WORDS.len()] {
    let mut languages: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, (_, words)) in FUNCTION_WORDS.iter().enumerate() {
        for word in words.split_whitespace() {
            languages.entry(word).or_default().push(at);
        }
    }
    let mut counts = [0; FUNCTION_WORDS.len()];
    for word in crate::text::terms(lower).take(400) {
        for &at in languages.get(word).into_iter().flatten() {
            counts[at] += 1;
        }
    }
    counts
}

/// Whether texts in the language of this code can be told.
pub fn is_known(code: &str) -> bool {
    (code.len() == 2 && SCRIPTS.iter().any(|(_, _, known)| *known == code))
        || FUNCTION_WORDS.iter().any(|(known, _)| *known == code)
        || ["ar", "fa", "ur", "hi", "mr", "ne"].contains(&code)
        || Lang::all().iter().any(|lang| iso(*lang) == Some(code))
}

/// The language of most of the text, as far as its first 16,000 characters show; `None` without letters.
pub fn tell(text: &str) -> Option<Known> {
    let text = text.char_indices().nth(16_000).map_or(text, |(end, _)| &text[..end]);
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        let Some((_, _, script)) = SCRIPTS.iter().find(|(from, to, _)| (*from..=*to).contains(&(c as u32)))
        else {
            continue;
        };
        match counts.iter_mut().find(|(known, _)| known == script) {
            Some((_, count)) => *count += 1,
            None => counts.push((script, 1)),
        }
    }
    let of = |script: &str| counts.iter().find(|(known, _)| *known == script).map_or(0, |(_, count)| *count);
    let (script, count) = counts.iter().copied().max_by_key(|(_, count)| *count)?;
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    // Japanese mixes kana and characters; some of the kana is enough.
    if matches!(script, "zh" | "ja") {
        let japanese = of("ja") * 10 >= of("zh").max(1);
        return Some(Known { code: if japanese { "ja" } else { "zh" }, sure: true });
    }
    match script {
        "latin" => latin(text),
        "cyrillic" => Some(cyrillic(text)),
        "arabic" => Some(arabic(text, count)),
        "devanagari" => Some(devanagari(text)),
        code => Some(Known { code, sure: count * 2 > total }),
    }
}

/// Languages in Latin letters.
fn latin(text: &str) -> Option<Known> {
    let lower = text.to_lowercase();
    // Vietnamese letters with two marks are its own.
    let letters = lower.chars().filter(|c| c.is_alphabetic()).count();
    let vietnamese =
        lower.chars().filter(|c| matches!(*c, '\u{1EA0}'..='\u{1EF9}' | 'ơ' | 'ư' | 'đ')).count();
    if vietnamese * 20 > letters {
        return Some(Known { code: "vi", sure: true });
    }
    let words = crate::text::terms(&lower).take(400).count();
    let mut hits: Vec<(&'static str, usize)> =
        FUNCTION_WORDS.iter().map(|(code, _)| *code).zip(hits(&lower)).collect();
    hits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let ((best, most), (_, second)) = (hits[0], hits[1]);
    let by_words = Known { code: best, sure: most >= 2 && most >= second * 2 && most * 8 >= words };
    if by_words.sure {
        return Some(by_words);
    }
    let info = Detector::new().detect(&lower);
    let guess = info
        .and_then(|info| iso(info.lang()).map(|code| Known { code, sure: info.is_reliable() && words >= 6 }));
    match guess {
        Some(guess) if guess.sure => Some(guess),
        _ if most > second => Some(Known { code: best, sure: false }),
        Some(guess) => Some(guess),
        None => Some(Known { code: "en", sure: false }),
    }
}

/// Languages in Cyrillic letters, most told by letters of their own.
fn cyrillic(text: &str) -> Known {
    let lower = text.to_lowercase();
    let any = |letters: &str| lower.contains(|c| letters.contains(c));
    let code = if any("ў") {
        "be"
    } else if any("іїєґ") {
        "uk"
    } else if any("ѓќѕ") {
        "mk"
    } else if any("ђћ") || (any("јљњџ") && !any("йщъыьэюя")) {
        "sr"
    } else if any("ыэё") {
        "ru"
    } else {
        let allowed = vec![Lang::Rus, Lang::Ukr, Lang::Bul, Lang::Mkd, Lang::Srp, Lang::Bel];
        return by_trigrams(&lower, allowed, "ru");
    };
    Known { code, sure: true }
}

/// Arabic, Persian and Urdu: the letters that one of them adds.
fn arabic(text: &str, letters: usize) -> Known {
    let count = |of: &str| text.chars().filter(|c| of.contains(*c)).count();
    let (urdu, persian) = (count("ٹڈڑںےہھ"), count("پچژگیک"));
    let code = match () {
        () if urdu * 50 > letters => "ur",
        () if persian * 50 > letters => "fa",
        () => "ar",
    };
    Known { code, sure: letters >= 8 }
}

/// Hindi, Marathi and Nepali, by function words.
fn devanagari(text: &str) -> Known {
    const WORDS: &[(&str, &str)] = &[
        ("hi", "है हैं का के की में से को और यह था थी थे नहीं पर ने भी कि एक हो कर लिए इस वह"),
        ("mr", "आहे आहेत आणि मध्ये हे ते नाही होते होता होती तर या त्या च्या ची चा चे केले असे मी तो ती"),
        ("ne", "छ छन् हो को लाई मा र गर्न भएको थियो छैन यो पनि गरेको हुन्छ गर्ने तथा नेपाल हरू"),
    ];
    let mut hits: Vec<(&'static str, usize)> = WORDS.iter().map(|(code, _)| (*code, 0)).collect();
    for word in crate::text::words(text) {
        for (at, (_, list)) in WORDS.iter().enumerate() {
            hits[at].1 += usize::from(list.split_whitespace().any(|known| known == word));
        }
    }
    hits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if hits[0].1 >= 2 && hits[0].1 > hits[1].1 {
        return Known { code: hits[0].0, sure: true };
    }
    by_trigrams(text, vec![Lang::Hin, Lang::Mar, Lang::Nep], "hi")
}

/// The detector's choice among some languages.
fn by_trigrams(text: &str, allowed: Vec<Lang>, otherwise: &'static str) -> Known {
    match Detector::with_allowlist(allowed).detect(text) {
        Some(info) => Known { code: iso(info.lang()).unwrap_or(otherwise), sure: info.is_reliable() },
        None => Known { code: otherwise, sure: false },
    }
}

/// ISO 639-1 of the detector's languages.
fn iso(lang: Lang) -> Option<&'static str> {
    const CODES: &str = "eng en rus ru cmn zh spa es por pt ita it ben bn fra fr deu de ukr uk kat ka ara ar hin hi \
                         jpn ja heb he yid yi pol pl amh am jav jv kor ko nob nb dan da swe sv fin fi tur tr nld nl \
                         hun hu ces cs ell el bul bg bel be mar mr kan kn ron ro slv sl hrv hr srp sr mkd mk lit lt \
                         lav lv est et tam ta vie vi urd ur tha th guj gu uzb uz pan pa aze az ind id tel te pes fa \
                         mal ml ori or mya my nep ne sin si khm km tuk tk aka ak zul zu sna sn afr af lat la slk sk \
                         cat ca tgl tl hye hy cym cy epo eo";
    let mut codes = CODES.split_whitespace();
    while let (Some(three), Some(two)) = (codes.next(), codes.next()) {
        if three == lang.code() {
            return Some(two);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_of_the_benchmark_is_told() {
        for (code, text) in [
            ("en", "This is a short reply written in English for the test."),
            ("en", "THIS IS A SHORT REPLY WRITTEN IN ENGLISH FOR THE TEST."),
            ("es", "El tren a Madrid sale hoy un poco más tarde de lo que dice el horario."),
            ("pt", "O trem para o Porto não sai hoje na hora que está no horário."),
            ("ar", "القطار إلى القاهرة يغادر اليوم متأخرا قليلا عن موعده."),
            ("hi", "आज ट्रेन समय सारणी से थोड़ी देर से चल रही है और यह दिल्ली जाती है।"),
            ("fr", "Le train pour Lyon part aujourd'hui un peu plus tard que prévu dans les horaires."),
            ("ru", "Поезд в Москву сегодня отправляется немного позже, чем указано в расписании."),
            ("de", "Der Zug nach Hamburg fährt heute etwas später ab als im Fahrplan steht."),
            ("ja", "今日は東京行きの電車が少し遅れて出発します。"),
            (
                "it",
                "Il treno per Roma parte oggi un po' più tardi di quello che dice l'orario della stazione.",
            ),
            ("bn", "আজ ট্রেনটি সময়সূচির চেয়ে একটু দেরিতে ছাড়বে।"),
            ("uk", "Потяг до Києва сьогодні відправляється трохи пізніше, ніж за розкладом."),
            ("th", "วันนี้รถไฟออกช้ากว่ากำหนดเล็กน้อย"),
            ("ur", "آج ٹرین اپنے وقت سے تھوڑی دیر بعد روانہ ہو گی اور یہ لاہور جاتی ہے۔"),
            ("ta", "இன்று ரயில் கொஞ்சம் தாமதமாக புறப்படும்."),
            ("te", "ఈ రోజు రైలు కొంచెం ఆలస్యంగా బయలుదేరుతుంది."),
            ("bg", "Влакът за София днес тръгва малко по-късно, отколкото е в разписанието."),
            ("ko", "오늘 기차는 예정보다 조금 늦게 출발합니다."),
            ("pl", "Pociąg do Krakowa odjeżdża dzisiaj trochę później, niż to jest w rozkładzie."),
            ("he", "הרכבת לחיפה יוצאת היום קצת מאוחר יותר."),
            ("fa", "قطار تهران امروز کمی دیرتر از برنامه حرکت می‌کند و این گزارش پایانی است."),
            ("vi", "Hôm nay tàu đi Hà Nội khởi hành muộn hơn một chút so với lịch."),
            ("ne", "आज रेल समय तालिका भन्दा केही ढिलो गरी छुट्ने छ र यो काठमाडौँ जाने हो।"),
            ("sw", "Treni ya kwenda Nairobi inaondoka leo kwa kuchelewa kidogo kama ilivyo kwa kila siku."),
            ("kn", "ಇಂದು ರೈಲು ಸ್ವಲ್ಪ ತಡವಾಗಿ ಹೊರಡುತ್ತದೆ."),
            ("mr", "आज गाडी वेळापत्रकापेक्षा थोडी उशिरा सुटणार आहे आणि ती पुण्याला जाते."),
            ("gu", "આજે ટ્રેન થોડી મોડી ઉપડશે."),
            ("pa", "ਅੱਜ ਰੇਲ ਗੱਡੀ ਥੋੜ੍ਹੀ ਦੇਰ ਨਾਲ ਚੱਲੇਗੀ।"),
            ("ml", "ഇന്ന് ട്രെയിൻ അല്പം വൈകിയാണ് പുറപ്പെടുന്നത്."),
            (
                "fi",
                "Juna Helsinkiin lähtee tänään vähän myöhemmin kuin aikataulu sanoo, mutta se ei ole ongelma.",
            ),
            ("zh", "今天的火车比时刻表晚一点出发。"),
            ("nl", "De trein naar Utrecht vertrekt vandaag iets later dan het in de dienstregeling staat."),
        ] {
            let known = tell(text).unwrap();
            assert_eq!(known.code, code, "{text}");
            assert!(known.sure, "{text}");
            assert!(is_known(code), "{code}");
        }
    }

    #[test]
    fn numbers_have_no_language_and_single_words_are_not_sure() {
        assert_eq!(tell("12345 !?"), None);
        assert!(!tell("Hamburg").unwrap().sure);
        assert!(!is_known("xx") && !is_known("latin"));
    }
}
