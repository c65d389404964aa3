//! `whet recipe new` and `whet recipe explain` as a user meets them.

use crate::plugin_cli::{standard_plugins, text};
use crate::whet;
use std::path::Path;
use whet_recipe::Recipe;

/// `whet recipe new` in `dir`, and what it printed.
fn new_recipe(dir: &Path, arguments: &[&str]) -> String {
    let mut command = whet::whet(dir, &["recipe", "new"]);
    let output = command.args(arguments).env("WHET_PLUGINS_DIR", standard_plugins()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn paths_given_to_recipe_new_are_written_as_they_lead_from_the_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::create_dir_all(dir.join("recipes/deep")).unwrap();
    for file in ["data/sums.train.jsonl", "solved.jsonl", "model/config.json", "plugins/mine.wasm"] {
        std::fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
        std::fs::write(dir.join(file), "").unwrap();
    }
    let new = |path: &str| {
        new_recipe(
            dir,
            &[
                path,
                "--train",
                "data/sums.train.jsonl[..1]",
                "--test",
                "./data/../solved.jsonl",
                "--model",
                "model",
                "--reward",
                "plugins/mine.wasm",
            ],
        );
        Recipe::load(&dir.join(path)).unwrap_or_else(|e| panic!("{e}"))
    };
    let root = dir.canonicalize().unwrap();
    for path in ["here.toml", "recipes/up.toml", "recipes/deep/down.toml"] {
        let recipe = new(path);
        assert_eq!(recipe.data.train[0].path, root.join("data/sums.train.jsonl"), "{path}");
        assert_eq!(recipe.data.test[0].path, root.join("solved.jsonl"), "{path}");
        assert_eq!(Path::new(&recipe.model.source), root.join("model"), "{path}");
        assert_eq!(Path::new(&recipe.reward[0].plugin.plugin), root.join("plugins/mine.wasm"), "{path}");
    }
    let absolute = root.join("data/sums.train.jsonl").display().to_string();
    new_recipe(dir, &["recipes/absolute.toml", "--train", &absolute]);
    assert!(std::fs::read_to_string(dir.join("recipes/absolute.toml")).unwrap().contains(&absolute));
}

/// With the row that its own comment shows as data.
#[test]
fn a_new_recipe_passes_the_doctor_or_names_what_is_left_to_fill_in() {
    let model = whet::tiny_model().display().to_string();
    let mut rewards = 0;
    for plugin in std::fs::read_dir(standard_plugins()).unwrap() {
        let name = plugin.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        let dir = tempfile::tempdir().unwrap();
        let mut command = whet::whet(dir.path(), &["recipe", "new", "new.toml", "--reward", &name]);
        command
            .args(["--model", &model, "--train", "train.jsonl"])
            .env("WHET_PLUGINS_DIR", standard_plugins());
        let output = command.output().unwrap();
        if !output.status.success() {
            let error = text(&output.stderr);
            assert!(error.contains("is no reward") && error.contains("= help:"), "{name}: {error}");
            assert!(!dir.path().join("new.toml").exists(), "{name}");
            continue;
        }
        rewards += 1;
        let said = text(&output.stdout);
        let recipe = std::fs::read_to_string(dir.path().join("new.toml")).unwrap();
        let row = recipe.lines().find_map(|line| line.strip_prefix("# {")).expect("a row");
        std::fs::write(dir.path().join("train.jsonl"), format!("{{{row}\n")).unwrap();
        // As the template of the tiny model is not the question here.
        let recipe = recipe.replace("[data]\n", "[data]\nprompt-format = \"raw\"\n");
        std::fs::write(dir.path().join("new.toml"), &recipe).unwrap();
        let mut doctor = whet::whet(dir.path(), &["doctor", "new.toml"]);
        let output = doctor.env("WHET_PLUGINS_DIR", standard_plugins()).output().unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{name}: {told}\n{recipe}");
        let open = recipe.contains("FILL IN");
        assert_eq!(open, said.contains("FILL IN"), "{name}: {said}");
        assert_eq!(open, ["judge", "remote"].contains(&name.as_str()), "{name}: {said}");
    }
    assert!(rewards > 10, "{rewards} rewards");
}

#[test]
fn what_a_plugin_of_ones_own_needs_is_left_to_fill_in_by_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(standard_plugins().join("length.wasm"), dir.path().join("mine.wasm")).unwrap();
    std::fs::copy(standard_plugins().join("judge.wasm"), dir.path().join("critic.wasm")).unwrap();
    let said = new_recipe(dir.path(), &["a.toml", "--reward", "mine.wasm"]);
    assert!(said.contains("reward.config.target  the length to keep to"), "{said}");
    let said = new_recipe(dir.path(), &["b.toml", "--reward", "critic.wasm"]);
    assert!(said.contains("judge.base-url") && said.contains("judge.model"), "{said}");
    let recipe = std::fs::read_to_string(dir.path().join("b.toml")).unwrap();
    assert!(recipe.contains("grants = [\"judge\"]") && recipe.contains("[judge]\n"), "{recipe}");
}

/// The lines of `whet recipe explain`.
fn explained(dir: &Path, arguments: &[&str]) -> String {
    whet::succeed(dir, &[&["recipe", "explain"], arguments].concat())
}

#[test]
fn every_recipe_and_every_preset_is_explained_without_a_hole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let quickstart = root.join("quickstart.toml").display().to_string();
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            texts.push((path.display().to_string(), explained(&root, &[path.to_str().unwrap()])));
        }
    }
    for preset in whet_recipe::Preset::ALL.map(|preset| preset.name()) {
        let set = format!("algorithm={preset:?}");
        let mut arguments = vec![quickstart.as_str(), "--set", &set];
        arguments.extend(match preset.as_str() {
            "ppo" => ["--set", "critic={}"].as_slice(),
            "distillation" => &["--set", "teacher.source=hf://a/b"],
            "gdpo" => &["--set", "reward.weights={a=1.0,b=0.1}"],
            _ => &[],
        });
        texts.push((preset, explained(&root, &arguments)));
    }
    for (name, text) in texts {
        for odd in ["{", "}", "  (", "000000", "999999", " 1 ·", "= \n", "(or below", " 1 updates"] {
            assert!(!text.contains(odd), "{name}: {odd:?} in\n{text}");
        }
    }
}

#[test]
fn a_recipe_without_a_reward_and_numbers_that_no_float_is_are_explained_well() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("train.jsonl"), "{\"prompt\": \"1 + 1 =\"}\n").unwrap();
    let recipe = "model = \"hf://a/b\"\n[data]\ntrain = \"train.jsonl\"\n[teacher]\nsource = \"hf://a/c\"\n\
                  loss = { divergence = \"jensen\", beta = 0.7 }\n[train]\ngrad-clip = 0\n";
    std::fs::write(dir.path().join("r.toml"), recipe).unwrap();
    let text = explained(dir.path(), &["r.toml"]);
    assert!(text.contains("reward     none: what is learnt comes from the teacher alone\n"), "{text}");
    assert!(text.contains("M = 0.7 · teacher + 0.3 · π") && text.contains("gradient not clipped"), "{text}");
}
