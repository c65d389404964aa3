//! `cargo xtask docs`: the generated pages of the book, and whether its links lead anywhere.
//!
//! The book is plain Markdown that reads on any forge; `docs/SUMMARY.md` is its table of contents,
//! in the form that mdBook takes.

use crate::reference;
use crate::workspace::{Workspace, output, say};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Flags of `docs`.
#[derive(clap::Args)]
pub struct Options {
    /// Change nothing; fail when a generated page is stale.
    #[arg(long)]
    pub check: bool,
}

/// Generates (or checks) the pages, then checks the links.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if !options.check {
        crate::setup::run(workspace, &crate::setup::Options::default())?;
        workspace.build_whet()?;
    }
    let schema = output(workspace.command(workspace.whet()).args(["recipe", "schema"]))?;
    let parsed = serde_json::from_str(&schema).context("`whet recipe schema` printed no JSON")?;
    generated(workspace, options, "docs/recipe.md", &reference::markdown(&parsed))?;
    generated(workspace, options, "docs/recipe.schema.json", &schema)?;
    let algorithms = output(workspace.command(workspace.whet()).args(["recipe", "algorithms"]))?;
    generated(workspace, options, "docs/algorithms.md", &algorithms)?;
    let faults = faults(&workspace.root)?;
    if !faults.is_empty() {
        bail!("the book has {} faults:\n{}", faults.len(), faults.join("\n"));
    }
    say("docs", "the book's pages are current and its links lead somewhere");
    Ok(())
}

fn generated(workspace: &Workspace, options: &Options, path: &str, text: &str) -> Result<()> {
    let file = workspace.root.join(path);
    if std::fs::read_to_string(&file).is_ok_and(|now| now == text) {
        return Ok(());
    }
    if options.check {
        bail!("{path} is stale: run `cargo xtask docs` and commit the result");
    }
    say("wrote", path);
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

/// Links that lead nowhere, and pages that the table of contents does not name.
fn faults(root: &Path) -> Result<Vec<String>> {
    let docs = root.join("docs");
    let mut pages: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(|name| root.join(name))
        .into();
    let mut in_folder = BTreeSet::new();
    for entry in std::fs::read_dir(&docs).with_context(|| format!("reading {}", docs.display()))?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "md") {
            in_folder.insert(entry.path());
        }
    }
    pages.extend(in_folder.iter().cloned());
    let mut faults = Vec::new();
    let mut listed = BTreeSet::from([docs.join("SUMMARY.md")]);
    for page in &pages {
        let text = std::fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
        let home = page.parent().unwrap_or(root);
        for target in links(&text) {
            let file = home.join(target.split('#').next().unwrap_or_default());
            if !file.exists() {
                let name = page.strip_prefix(root).unwrap_or(page).display();
                faults.push(format!("  {name}: `{target}` is not there"));
            }
            if page.ends_with("docs/SUMMARY.md") {
                listed.insert(file);
            }
        }
    }
    for page in in_folder.difference(&listed) {
        faults.push(format!(
            "  docs/SUMMARY.md does not name {}",
            page.strip_prefix(&docs).unwrap_or(page).display()
        ));
    }
    Ok(faults)
}

/// Targets of the links within the repository; code blocks and addresses elsewhere do not count.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = &rest[..rest.find(')').unwrap_or(rest.len())];
            if !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:") {
                found.push(target);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_the_repository_are_found_outside_of_code() {
        let text = "See [a](a.md#part) and [web](https://example.com).\n```\n[x](no.md)\n```\n[b](../b.md), [top](#top)";
        assert_eq!(links(text), ["a.md#part", "../b.md"]);
    }

    #[test]
    fn a_link_to_nothing_and_an_unlisted_page_are_faults() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        for (file, text) in [
            ("README.md", "[gone](docs/gone.md)"),
            ("ARCHITECTURE.md", ""),
            ("CONTRIBUTING.md", ""),
            ("CHANGELOG.md", ""),
            ("docs/SUMMARY.md", "- [a](a.md)"),
            ("docs/a.md", "[up](../README.md)"),
            ("docs/b.md", ""),
        ] {
            std::fs::write(root.path().join(file), text).unwrap();
        }
        let faults = faults(root.path()).unwrap();
        assert_eq!(
            faults,
            ["  README.md: `docs/gone.md` is not there", "  docs/SUMMARY.md does not name b.md"]
        );
    }
}
