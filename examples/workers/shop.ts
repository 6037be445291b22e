/** What the shop is made of: the cities that order, what an order is, and the workers that pack it. Server, workers and page use it. */

/** Each city has a stream of its own, so its orders are packed one after the other. */
export const CITIES = [
  ...["Accra", "Bergen", "Cusco", "Dakar", "Essen", "Fez"],
  ...["Genoa", "Hanoi", "Izmir", "Jena", "Kyoto", "Lima"],
] as const;

export const GROUP = "packing";
export const FILTER = "orders/+";
/** What was packed, by which worker: for the page. */
export const PACKED = "packed";

export interface Order {
  readonly id: string;
}

export interface Packed {
  readonly order: string;
  readonly city: string;
  readonly by: string;
}

export interface WorkerName {
  readonly id: string;
  readonly name: string;
  /** Of the colors in live.css. */
  readonly tone: number;
}

export const WORKERS: readonly WorkerName[] = [
  { id: "ada", name: "Ada", tone: 0 },
  { id: "bo", name: "Bo", tone: 1 },
  { id: "cleo", name: "Cleo", tone: 2 },
  { id: "dag", name: "Dag", tone: 3 },
  { id: "eve", name: "Eve", tone: 4 },
];

/** A worker as the page is told of it. `leaving`: it finishes what it has in hand. */
export interface WorkerState {
  readonly id: string;
  readonly state: "working" | "leaving" | "gone";
  readonly pid?: number | undefined;
}

export function streamOf(city: string): string {
  return `orders/${city.toLowerCase()}`;
}

export function cityOf(stream: string): string {
  return CITIES.find((city) => streamOf(city) === stream) ?? stream;
}
