//! Chi-squared: two lists of counts, or counts and shares, differ by more than chance.

/// Values that chance exceeds in 1 of 1,000 runs, by degrees of freedom from 1 on.
const LIMITS: [f64; 8] = [10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12];

/// Returns the value that chance exceeds in 1 of 1,000 runs, for this number of functions.
pub fn limit(functions: usize) -> f64 {
    LIMITS[functions - 2]
}

/// Returns chi-squared of two lists of counts for the hypothesis that their shares are the same.
/// Functions without samples in both are skipped.
pub fn chi_squared(first: &[u64], second: &[u64]) -> f64 {
    let sampled = first.iter().zip(second).filter(|(first, second)| **first + **second > 0);
    let (first, second): (Vec<f64>, Vec<f64>) =
        sampled.map(|(&first, &second)| (first as f64, second as f64)).unzip();
    of_counts(&first, &second)
}

/// Returns the same for counts that aren't whole numbers.
pub fn of_counts(first: &[f64], second: &[f64]) -> f64 {
    let both: Vec<f64> = first.iter().zip(second).map(|(first, second)| first + second).collect();
    of_shares(first, &both) + of_shares(second, &both)
}

/// Returns chi-squared of counts for the hypothesis that they have these shares.
pub fn of_shares(counts: &[f64], shares: &[f64]) -> f64 {
    let [all, whole] = [counts, shares].map(|values| values.iter().sum::<f64>());
    let expected = shares.iter().map(|share| share * all / whole);
    counts.iter().zip(expected).map(|(count, expected)| (count - expected).powi(2) / expected).sum()
}

#[test]
fn finds_different_shares() {
    let steady = [1000, 2000, 3000, 4000];
    assert!(chi_squared(&steady, &[12, 18, 33, 37]) < limit(4));
    assert!(chi_squared(&steady, &[22, 18, 33, 27]) > limit(4));
    assert!(chi_squared(&steady, &[1100, 1900, 3000, 4000]) < limit(4));
    assert!(chi_squared(&steady, &[1150, 1850, 3000, 4000]) > limit(4));
    let steady = steady.map(|count| count as f64);
    assert!(of_shares(&steady, &[0.1, 0.2, 0.3, 0.4]) < 1e-9);
    assert!(of_shares(&steady, &[0.115, 0.185, 0.3, 0.4]) > limit(4));
    assert!(of_counts(&steady, &[0.0; 4]).is_nan());
}

#[test]
fn skips_function_without_samples() {
    assert!(chi_squared(&[10, 0, 30], &[20, 0, 60]) < 1e-9);
}
