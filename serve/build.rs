//! Creates a placeholder page if the UI has not been built, so that the crate compiles without
//! Node.js.

use std::fs;
use std::path::Path;

const PLACEHOLDER: &str = "<!doctype html><meta charset=utf-8><title>Spanwise</title>\
<p>The UI is not in this build. Run <code>make web</code>, then build again. \
The API is at <a href=/api/v1/status>/api/v1/status</a>.\n";

fn main() {
    let index = Path::new("../web/dist/index.html");
    println!("cargo:rerun-if-changed=../web/dist");
    if !index.exists() {
        let made = fs::create_dir_all("../web/dist").and_then(|()| fs::write(index, PLACEHOLDER));
        if let Err(error) = made {
            panic!("cannot write {}: {error}", index.display());
        }
    }
}
