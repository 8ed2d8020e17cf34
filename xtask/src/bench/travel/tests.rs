use super::exponent;

#[test]
fn a_straight_line_has_the_exponent_one_and_a_square_two() {
    let linear = [0.25, 0.5, 1.0, 2.0];
    assert!((exponent(&linear) - 1.0).abs() < 1e-9);
    assert!((exponent(&linear.map(|t| t * t)) - 2.0).abs() < 1e-9);
}
