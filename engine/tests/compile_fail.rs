//! Programs that do not compile, and what the compiler tells their authors.

#[test]
fn mistakes_are_told_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
