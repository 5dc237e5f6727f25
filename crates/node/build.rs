//! Compiles the programs of the data plane (bpf/*.bpf.c) with clang; `src/dataplane/load.rs` embeds what comes out.

use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for file in fs::read_dir("bpf").expect("bpf/ is there").flatten() {
        println!("cargo::rerun-if-changed={}", file.path().display());
    }
    for program in ["vl2_host", "vl2_switch", "netlord_host", "netlord_switch"] {
        compile(&Path::new("bpf").join(format!("{program}.bpf.c")), &out.join(format!("{program}.bpf.o")));
    }
}

fn compile(source: &Path, object: &Path) {
    // Where Debian has the headers of this machine's kind (asm/types.h).
    let machine = format!("-I/usr/include/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it"));
    let built = SkeletonBuilder::new()
        .source(source)
        .obj(object)
        .clang_args([&machine, "-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror"])
        .build();
    if let Err(error) = built {
        panic!(
            "cannot compile {}: {error:#}\nscripts/setup-node.sh installs what that needs: clang and the kernel's headers",
            source.display()
        );
    }
}
