#!/usr/bin/env node
// The `sluice` command. It exists before the first build, so that npm can link it at install.
import { main } from "../dist/cli.js";

await main(process.argv.slice(2));
