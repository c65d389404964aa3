//! Dates for `strftime_now`.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Seconds since 1970, UTC.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

/// `strftime` in UTC, with the directives that templates use; `None` for one that is unknown.
pub(super) fn format(seconds: i64, pattern: &str) -> Option<String> {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let weekday = (days + 4).rem_euclid(7) as usize;
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let half = if hour < 12 { "AM" } else { "PM" };
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next()?;
        let padded = directive != '-';
        if !padded {
            directive = chars.next()?;
        }
        let number = |value: i64| if padded { format!("{value:02}") } else { value.to_string() };
        out += &match directive {
            'Y' => year.to_string(),
            'y' => number(year.rem_euclid(100)),
            'm' => number(month),
            'd' => number(day),
            'H' => number(hour),
            'I' => number(hour12),
            'M' => number(minute),
            'S' => number(second),
            'j' => {
                let day_of_year = days - days_from_civil(year) + 1;
                if padded { format!("{day_of_year:03}") } else { day_of_year.to_string() }
            }
            'A' => DAYS[weekday].into(),
            'a' => DAYS[weekday][..3].into(),
            'B' => MONTHS[month as usize - 1].into(),
            'b' | 'h' => MONTHS[month as usize - 1][..3].into(),
            'p' => half.into(),
            'F' => format!("{year}-{month:02}-{day:02}"),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'e' => format!("{day:2}"),
            'w' => weekday.to_string(),
            'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
            'Z' => "UTC".into(),
            'z' => "+0000".into(),
            '%' => "%".into(),
            _ => return None,
        };
    }
    Some(out)
}

/// Year, month and day of a day since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// Day since 1970 of the first of January.
fn days_from_civil(year: i64) -> i64 {
    let y = year - 1;
    365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) - 719_162
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Python: datetime(2024, 2, 29, 23, 4, 5), datetime(1970, 1, 1), datetime(2026, 12, 31, 12).
        let pattern = "%Y-%m-%d %H:%M:%S %a %A %b %B %j %y %-d %I %p %%";
        for (seconds, text) in [
            (1_709_247_845, "2024-02-29 23:04:05 Thu Thursday Feb February 060 24 29 11 PM %"),
            (0, "1970-01-01 00:00:00 Thu Thursday Jan January 001 70 1 12 AM %"),
            (1_798_718_400, "2026-12-31 12:00:00 Thu Thursday Dec December 365 26 31 12 PM %"),
        ] {
            assert_eq!(format(seconds, pattern).as_deref(), Some(text));
        }
        assert_eq!(format(0, "%Q"), None);
    }
}
