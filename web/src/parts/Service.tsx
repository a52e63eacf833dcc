import { useServiceStyle } from "../app/palette";

export function Service({ name }: { name: string }) {
  return (
    <span className="service cut" style={useServiceStyle()(name)} title={name}>
      <span className="swatch" /> {name}
    </span>
  );
}
