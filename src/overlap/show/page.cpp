// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/page.hpp"

#include "base/json_writer.hpp"
#include "base/xml_text.hpp"
#include "overlap/show/colours.hpp"
#include "overlap/show/page_data.hpp"
#include "overlap/show/page_text.hpp"
#include "overlap/show/terminal.hpp"
#include "overlap/show/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace msstream::overlap {
namespace {

/// The policy of the page: it loads nothing but what it contains.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'";

std::string causes_json() {
  std::string out;
  detail::JsonWriter json(out);
  json.begin_array();
  for (auto const& text : cause_texts()) {
    json.begin_object();
    json.member("id", text.id);
    json.member("title", text.title);
    json.end_object();
  }
  json.end_array();
  return out;
}

/// Returns a text of several lines for an element `pre`.
std::string lines_of(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    out += detail::xml_text(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Returns the page up to the begin of its body.
std::string head_of(std::string_view title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
      kPolicy,
      detail::xml_text(title),
      page::style());
}

}  // namespace

std::string html_text(std::span<Comparison const> comparisons) {
  return head_of("Overlap: a comparison") +
         fmt::format("<pre class=\"card\">\n{}</pre>\n</body>\n</html>\n",
                     lines_of(terminal_text(comparisons, {})));
}

std::string html_text(std::span<Explained const> reports, PageOptions const& options) {
  std::string title = "Overlap";
  std::string plain;
  for (auto const& explained : reports) {
    title += fmt::format("{} {}", title == "Overlap" ? ":" : ",", title_of(explained.recording));
    plain += terminal_text(explained, {}) + "\n";
  }
  std::string out = head_of(title);
  out += fmt::format("{}<noscript><pre>\n{}</pre></noscript>\n", page::body(), lines_of(plain));
  out +=
      fmt::format("<script type=\"application/json\" id=\"causes\">{}</script>\n", causes_json());
  out +=
      fmt::format("<script type=\"application/json\" id=\"palette\">{}</script>\n", colours_json());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    auto const data = page_data(reports[i], options);
    out += fmt::format("<script type=\"application/json\" class=\"report\" id=\"report-{}\">", i);
    out += data.description;
    out += fmt::format("</script>\n<script type=\"text/plain\" id=\"columns-{}\">", i);
    out += data.columns;
    out += "</script>\n";
  }
  out += "<script>\n\"use strict\";\n";
  for (auto const part : page::script()) {
    out += part;
  }
  out += "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace msstream::overlap
