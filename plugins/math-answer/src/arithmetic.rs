//! Integers of any size as decimal digits: just enough to compare fractions exactly.
//!
//! Digits are values 0 to 9, the most significant first; zero has none.

/// Without leading zeros.
pub fn trimmed(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&d| d == 0).count();
    &digits[zeros..]
}

/// `a * b`.
pub fn product(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut columns = vec![0u32; a.len() + b.len()];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            columns[i + j + 1] += u32::from(x) * u32::from(y);
        }
    }
    carried(columns)
}

/// `a + b`.
pub fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let length = a.len().max(b.len()) + 1;
    let mut columns = vec![0u32; length];
    for (i, &d) in a.iter().rev().enumerate() {
        columns[length - 1 - i] += u32::from(d);
    }
    for (i, &d) in b.iter().rev().enumerate() {
        columns[length - 1 - i] += u32::from(d);
    }
    carried(columns)
}

/// Digits from columns that may exceed 9.
fn carried(mut columns: Vec<u32>) -> Vec<u8> {
    let mut carry = 0;
    for column in columns.iter_mut().rev() {
        let total = *column + carry;
        *column = total % 10;
        carry = total / 10;
    }
    let digits: Vec<u8> = columns.into_iter().map(|c| c as u8).collect();
    trimmed(&digits).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digits(n: u128) -> Vec<u8> {
        trimmed(&n.to_string().bytes().map(|b| b - b'0').collect::<Vec<_>>()).to_vec()
    }

    proptest! {
        #[test]
        fn for_every_pair_sums_and_products_are_those_of_the_machine(a in 0u64.., b in 0u64..) {
            let (a, b) = (u128::from(a), u128::from(b));
            prop_assert_eq!(product(&digits(a), &digits(b)), digits(a * b));
            prop_assert_eq!(sum(&digits(a), &digits(b)), digits(a + b));
        }
    }
}
