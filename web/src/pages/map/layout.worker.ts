/** Computes layouts in a worker, so that the page stays responsive. */
import { layers } from "../../model/layers";

export interface LayoutAsked {
  key: string;
  names: string[];
  edges: [from: string, to: string][];
}

export interface LayoutMade {
  key: string;
  /** Column and row of each node, in the order of the names. */
  x: Float32Array;
  y: Float32Array;
}

self.onmessage = ({ data }: MessageEvent<LayoutAsked>) => {
  const places = layers(data.names, data.edges);
  const made: LayoutMade = {
    key: data.key,
    x: Float32Array.from(data.names, (name) => places.get(name)!.x),
    y: Float32Array.from(data.names, (name) => places.get(name)!.y),
  };
  self.postMessage(made);
};
