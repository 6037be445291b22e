// Makes a package of packages/ ready for `npm pack` and `npm publish`, also on a fresh clone: installs, builds, and puts the
// license into the package. npm calls it in the folder of the package.
import { copyFileSync } from "node:fs";
import { installAndBuild, root } from "./install.mjs";

// npm passes its own options on, such as --workspace and --dry-run; they are not meant for the install.
for (const name of Object.keys(process.env)) if (/^npm_config_/i.test(name)) delete process.env[name];
// Several threads would check the same types again.
installAndBuild("--singleThreaded");
copyFileSync(`${root}LICENSE`, "LICENSE");
