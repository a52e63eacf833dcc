/** The visible part of the map. World and screen coordinates are CSS pixels. */
import type { Box } from "../../model/labels";
import type { Point } from "../../model/spot";

export interface Size {
  width: number;
  height: number;
}

export interface Camera {
  /** The world point at the centre of the screen. */
  x: number;
  y: number;
  zoom: number;
}

const MOST_ZOOM = 4;

export function toScreen(camera: Camera, size: Size, { x, y }: Point): Point {
  return {
    x: (x - camera.x) * camera.zoom + size.width / 2,
    y: (y - camera.y) * camera.zoom + size.height / 2,
  };
}

export function toWorld(camera: Camera, size: Size, { x, y }: Point): Point {
  return {
    x: (x - size.width / 2) / camera.zoom + camera.x,
    y: (y - size.height / 2) / camera.zoom + camera.y,
  };
}

/** Shows the whole world, at most at its natural size. */
export function fitted(world: Box, size: Size): Camera {
  return {
    x: world.left + world.width / 2,
    y: world.top + world.height / 2,
    zoom: Math.min(1, size.width / world.width, size.height / world.height),
  };
}

/** Zooms by a factor and keeps a point of the screen in place. */
export function zoomed(camera: Camera, size: Size, by: number, at: Point, least: number): Camera {
  const zoom = Math.min(MOST_ZOOM, Math.max(Math.min(least, camera.zoom), camera.zoom * by));
  const held = toWorld(camera, size, at);
  return {
    x: held.x - (at.x - size.width / 2) / zoom,
    y: held.y - (at.y - size.height / 2) / zoom,
    zoom,
  };
}
