export { getLoadablePath, getCommandPath, giveKey, load, register } from "./index.js";
