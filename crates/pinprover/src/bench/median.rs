//! The middle of some times.

/// The median, the mean of the two middle ones for an even number.
///
/// # Panics
/// Without any.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    match times.len() % 2 {
        0 => (times[middle - 1] + times[middle]) / 2.0,
        _ => times[middle],
    }
}
