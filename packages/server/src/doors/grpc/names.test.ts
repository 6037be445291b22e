import { expect, it } from "vitest";
import { Refusal } from "../../core/refusal.ts";
import { Names, projectOf } from "./names.ts";

it("a topic's name is the percent-encoded path of its stream", () => {
  const names = new Names("p");
  expect(names.topic("projects/p/topics/orders%2Feu")).toBe("orders/eu");
  expect(names.topicName("orders/eu")).toBe("projects/p/topics/orders%2Feu");
});

it.each([
  "projects/p/topics/",
  "projects/p/topics/a/b",
  "projects/p/topics/a+b",
  "projects/p/topics/a%2",
  "projects/other/topics/a",
  "projects/p/subscriptions/a",
  "a",
])("%s names no topic of the project p", (name) => {
  expect(() => new Names("p").topic(name)).toThrow(`Invalid resource name given (name=${name})`);
});

it("a name without a project is refused", () => {
  expect(projectOf("projects/p")).toBe("p");
  expect(() => projectOf("topics/a")).toThrow("it must start with projects/PROJECT");
});

it("a refusal is about the resource of its kind that was asked for last", () => {
  const names = new Names("p");
  names.topic("projects/p/topics/t");
  names.subscription("projects/p/subscriptions/s");
  expect(names.named(new Refusal("stream-not-found", ""))).toBe("t");
  expect(names.named(new Refusal("subscription-not-found", ""))).toBe("s");
  expect(names.named(new Refusal("forbidden", ""))).toBeUndefined();
});
