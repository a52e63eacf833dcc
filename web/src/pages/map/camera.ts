/** What part of the map is seen. World and screen are in CSS pixels. */
import type { Box } from "../../model/labels";
import type { Point } from "../../model/spot";

export interface Size {
  width: number;
  height: number;
}

export interface Camera {
  /** The point of the world in the middle of the screen. */
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

/** All of the world, no larger than it is. */
export function fitted(world: Box, size: Size): Camera {
  return {
    x: world.left + world.width / 2,
    y: world.top + world.height / 2,
    zoom: Math.min(1, size.width / world.width, size.height / world.height),
  };
}

/** Closer by a factor, or farther, so that a point of the screen stays where it is. */
export function zoomed(camera: Camera, size: Size, by: number, at: Point, least: number): Camera {
  const zoom = Math.min(MOST_ZOOM, Math.max(Math.min(least, camera.zoom), camera.zoom * by));
  const held = toWorld(camera, size, at);
  return {
    x: held.x - (at.x - size.width / 2) / zoom,
    y: held.y - (at.y - size.height / 2) / zoom,
    zoom,
  };
}
