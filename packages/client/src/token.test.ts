import { expect, test } from "vitest";
import { Token } from "./token.ts";

test("the late refusal of a token that was replaced meanwhile asks for no other token", async () => {
  let asked = 0;
  const token = new Token(() => `t${++asked}`);
  const first = await token.get(undefined);
  expect(token.refuse(first)).toBe(true);
  expect(await token.get(undefined)).toBe("t2");
  expect(token.refuse(first)).toBe(true);
  expect(token.get(undefined)).toBe("t2");
});
