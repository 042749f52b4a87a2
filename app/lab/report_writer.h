#pragma once

#include <filesystem>
#include <string>

#include "app/lab/lab_types.h"

namespace vitrine::app::lab {

enum class ReportFormat { kJson, kMarkdown, kHtml, kPdf };
const char* suffixOf(ReportFormat format);  // "json", "md", "html", "pdf"

/// The bytes of a report. PDF needs a QGuiApplication (offscreen is enough). HTML is one file with
/// its charts as SVG, light and dark by the reader's system; nothing in it is fetched.
engine::Result<std::string> writeReport(const LabReport& report, ReportFormat format);

/// Writes `report.<suffix>` whole or not at all; the folder is made.
engine::Result<std::filesystem::path> saveReport(const LabReport& report, ReportFormat format,
                                                 const std::filesystem::path& folder);
/// The same under a name of its own.
engine::Result<void> saveReportAs(const LabReport& report, ReportFormat format,
                                  const std::filesystem::path& file);

// One file each.
std::string toMarkdown(const LabReport& report);
std::string toHtml(const LabReport& report);
engine::Result<std::string> toPdf(const LabReport& report);
/// A chart as an <svg> element whose colours are the classes s0, s1, … and `muted`.
std::string toSvg(const Chart& chart, double width, double height);

/// How much of its bar a gain fills: the logarithm of the factor, 16× is all of it.
double gainShare(double factor);

/// A figure with its unit and the range of its repeats: "107 tokens/s (101–110, 9×)".
std::string figureText(const Figure& figure);
/// Model, machine and configuration as names and values, for all formats.
std::vector<std::pair<std::string, std::string>> aboutLines(const LabReport& report);

}  // namespace vitrine::app::lab
