export { getLoadablePath, getDefaultLoadablePath, getCommandPath, load, register } from "./index.js";
