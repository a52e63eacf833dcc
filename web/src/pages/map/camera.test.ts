import { expect, it } from "vitest";
import { fitted, toScreen, toWorld, zoomed } from "./camera";

const size = { width: 800, height: 400 };
const world = { left: -100, top: 0, width: 4000, height: 1000 };

it("shows all of the world, and does not blow up a small one", () => {
  const camera = fitted(world, size);
  expect(toScreen(camera, size, { x: -100, y: 500 })).toEqual({ x: 0, y: 200 });
  expect(toScreen(camera, size, { x: 3900, y: 500 })).toEqual({ x: 800, y: 200 });
  expect(fitted({ left: 0, top: 0, width: 80, height: 40 }, size).zoom).toBe(1);
});

it("comes closer to what the pointer is at, within limits", () => {
  const camera = fitted(world, size);
  const at = { x: 600, y: 100 };
  const closer = zoomed(camera, size, 2, at, camera.zoom);
  expect(closer.zoom).toBe(camera.zoom * 2);
  const [before, after] = [toWorld(camera, size, at), toWorld(closer, size, at)];
  expect(after.x).toBeCloseTo(before.x);
  expect(after.y).toBeCloseTo(before.y);
  expect(zoomed(camera, size, 1e6, at, camera.zoom).zoom).toBe(4);
  expect(zoomed(camera, size, 1e-6, at, camera.zoom).zoom).toBe(camera.zoom);
});
