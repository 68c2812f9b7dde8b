//! Compares the shares of functions in two lists of samples.

/// Values of chi-squared that chance exceeds in 1 of 1,000 runs, by degrees of freedom from 1 on.
const CHANCE: [f64; 8] = [10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12];

/// Returns the value of chi-squared that chance exceeds in 1 of 1,000 runs, for this number of
/// functions.
pub fn limit(functions: usize) -> f64 {
    CHANCE[functions - 2]
}

/// Returns chi-squared of two lists of counts for the hypothesis that their shares are the same.
pub fn chi_squared(first: &[u64], second: &[u64]) -> f64 {
    let [all_first, all_second] = [first, second].map(|counts| counts.iter().sum::<u64>() as f64);
    let all = all_first + all_second;
    let of = |(&first, &second): (&u64, &u64)| {
        let both = (first + second) as f64;
        let term = |count: u64, of: f64| (count as f64 - both * of / all).powi(2) / (both * of / all);
        if both == 0.0 { 0.0 } else { term(first, all_first) + term(second, all_second) }
    };
    first.iter().zip(second).map(of).sum()
}

#[test]
fn finds_different_shares() {
    let steady = [1000, 2000, 3000, 4000];
    assert!(chi_squared(&steady, &[12, 18, 33, 37]) < limit(4));
    assert!(chi_squared(&steady, &[22, 18, 33, 27]) > limit(4));
    assert!(chi_squared(&steady, &[1100, 1900, 3000, 4000]) < limit(4));
    assert!(chi_squared(&steady, &[1150, 1850, 3000, 4000]) > limit(4));
}
