//! The names that a target of rustc has on npm and PyPI.

use anyhow::{Context as _, bail};

/// The oldest macOS that rustc's programs start on, by architecture.
const MACOS: &[(&str, &str)] = &[("x86_64", "macosx_10_12_x86_64"), ("aarch64", "macosx_11_0_arm64")];

/// A target that has binaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Platform {
    /// The target of rustc.
    pub(super) target: String,
    /// What node calls the operating system and the processor.
    pub(super) npm_os: &'static str,
    pub(super) npm_cpu: &'static str,
}

/// The platforms for which the workflow builds binaries, as node names them.
pub(super) const RELEASED: &[(&str, &str)] =
    &[("linux", "x64"), ("linux", "arm64"), ("darwin", "x64"), ("darwin", "arm64"), ("win32", "x64")];

impl Platform {
    /// The platform of a target of rustc.
    pub(super) fn of(target: &str) -> anyhow::Result<Self> {
        let npm_os = if target.ends_with("-linux-gnu") {
            "linux"
        } else if target.ends_with("-apple-darwin") {
            "darwin"
        } else if target.ends_with("-windows-msvc") {
            "win32"
        } else {
            bail!(
                "there are no packages for {target}; releases are built for Linux with glibc, macOS and Windows"
            )
        };
        let npm_cpu = match target.split('-').next() {
            Some("x86_64") => "x64",
            Some("aarch64") => "arm64",
            _ => bail!("there are no packages for {target}; releases are built for x86_64 and aarch64"),
        };
        Ok(Self { target: target.to_owned(), npm_os, npm_cpu })
    }

    fn processor(&self) -> &str {
        self.target.split('-').next().unwrap_or_default()
    }

    /// The file name of the program.
    pub(super) fn program(&self) -> &'static str {
        if self.npm_os == "win32" { "looptree.exe" } else { "looptree" }
    }

    /// The package of npm that holds the program.
    pub(super) fn npm_package(&self) -> String {
        format!("@looptree/{}-{}", self.npm_os, self.npm_cpu)
    }

    /// The tag of a wheel that holds the program. On Linux it names the oldest glibc that the program starts with.
    pub(super) fn wheel_tag(&self, program: &[u8]) -> anyhow::Result<String> {
        let platform = match self.npm_os {
            "linux" => {
                let (major, minor) =
                    newest_glibc(program).context("the program names no version of glibc")?;
                format!("manylinux_{major}_{minor}_{}", self.processor())
            }
            "darwin" => {
                let known = MACOS.iter().find(|(processor, _)| *processor == self.processor());
                known.context("no wheel tag for this processor")?.1.to_owned()
            }
            _ => "win_amd64".to_owned(),
        };
        Ok(format!("py3-none-{platform}"))
    }
}

/// The newest version of glibc whose symbols a program links, from the names `GLIBC_2.34` in its string table.
pub(super) fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let places = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = places.filter_map(|(at, _)| {
        let rest = program.get(at + MARK.len()..)?;
        // A name of the string table ends with a zero.
        let end = rest.iter().take(12).position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(rest.get(..end)?).ok()?;
        let mut numbers = text.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}
