export default function MapPage() {
  return null;
}
