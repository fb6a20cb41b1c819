// The charts lie in a file beside the page, which many pages share. Without it the pictures stay.
const main = document.querySelector("main").dataset;
const charts = document.createElement("script");
// From a disk a browser cannot check a digest.
if (location.protocol !== "file:") charts.integrity = main.integrity;
charts.src = main.charts;
document.head.append(charts);
