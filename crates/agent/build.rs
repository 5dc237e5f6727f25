//! Compiles the programs of the data planes (`bpf/OVERLAY/{host,switch}.bpf.c`) with clang into `OUT_DIR`, where `src/*/dataplane` embed them, and
//! generates Rust types from theirs (`src/dataplane/generated.rs`).

use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for folder in ["bpf", "bpf/vl2", "bpf/netlord", "bpf/subways"] {
        for file in fs::read_dir(folder).expect("the folder is part of the crate").flatten() {
            println!("cargo::rerun-if-changed={}", file.path().display());
        }
    }
    for (folder, role) in [("vl2", "host"), ("vl2", "switch"), ("netlord", "host"), ("netlord", "switch"), ("subways", "host")] {
        let source = Path::new("bpf").join(folder).join(format!("{role}.bpf.c"));
        compile(&source, &out, &format!("{folder}_{role}"));
    }
}

fn compile(source: &Path, out: &Path, name: &str) {
    // Where Debian has the headers of this machine's kind (asm/types.h).
    let machine = format!("-I/usr/include/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it"));
    let built = SkeletonBuilder::new()
        .source(source)
        .obj(out.join(format!("{name}.bpf.o")))
        .reference_obj(true)
        // Nobody reads it, and where the component is missing rustup has a `rustfmt` that fails. One that is not there is left out.
        .rustfmt(out.join("no-rustfmt"))
        .clang_args([&machine, "-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror"])
        .build_and_generate(out.join(format!("{name}.skel.rs")));
    if let Err(error) = built {
        panic!(
            "cannot compile {}: {error:#}\nscripts/setup-daemons.sh installs what it needs: clang and the kernel's headers",
            source.display()
        );
    }
}
