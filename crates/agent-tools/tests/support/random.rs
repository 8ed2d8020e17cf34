//! Random cases of the differential tests: their seed, their number, and a folder for them.

use agent_tools::Workspace;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Folder;

/// The number in an environment variable; a text that is no number fails the test.
#[expect(clippy::disallowed_methods, reason = "a long run or a seed is asked for by the environment")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Returns a runner, its seed and its number of cases. `LOOPTREE_{name}_SEED` and `LOOPTREE_{name}_CASES` replace the two.
pub fn runner(name: &str, seed: u64, cases: u32) -> (TestRunner, u64, u32) {
    let seed = number(&format!("LOOPTREE_{name}_SEED")).unwrap_or(seed);
    let cases = number(&format!("LOOPTREE_{name}_CASES")).map_or(cases, |n| u32::try_from(n).unwrap());
    eprintln!("{cases} cases, LOOPTREE_{name}_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    (TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)), seed, cases)
}

/// A folder in memory where there is one: the tools flush each file to the disk, and that would be nearly all of the time.
pub fn in_memory() -> Folder {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    Folder { dir, workspace }
}
