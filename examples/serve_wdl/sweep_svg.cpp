// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"
#include "sweep.hpp"

#include <msstream/base/text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace serve_wdl {

using Json = nlohmann::ordered_json;
using ms::text;

namespace {

constexpr std::array kPalette{"#4477aa", "#ee6677", "#228833", "#ccbb44", "#aa3377"};
constexpr double kPanelWidth = 420;
constexpr double kPanelHeight = 260;
constexpr double kLeft = 80;
constexpr double kTop = 50;
constexpr double kBetween = 110;
constexpr double kLegendLine = 18;

std::string tenths(double value) {
  return ms::cli::fixed(value, 1);
}

/// Returns the distance between ticks: 1, 2 or 5 times a power of ten, such that about four ticks
/// reach `most`.
double tick_below(double most) {
  constexpr double kTicks = 4;
  double const raw = std::max(most, 1e-9) / kTicks;
  double const power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double const step : {1.0, 2.0, 5.0}) {
    if (step * power >= raw) {
      return step * power;
    }
  }
  return 10 * power;
}

std::string tick_text(double value, double step) {
  if (step >= 1) {
    return ms::cli::grouped(std::llround(value));
  }
  return ms::cli::fixed(value, static_cast<int>(std::ceil(-std::log10(step))));
}

/// The settings and the numbers of replicas in a sweep, which all lines of the picture share.
struct Sweep {
  std::vector<std::string> settings;
  std::vector<int> replicas;

  explicit Sweep(Json const& points) {
    for (auto const& point : points) {
      auto const setting = point.at("setting").get<std::string>();
      auto const on = point.at("replicas").get<int>();
      if (std::ranges::find(settings, setting) == settings.end()) {
        settings.push_back(setting);
      }
      if (std::ranges::find(replicas, on) == replicas.end()) {
        replicas.push_back(on);
      }
    }
    std::ranges::sort(replicas);
  }
  /// Returns the position of a number of replicas. Neighbours have equal distances, since the
  /// numbers are usually powers of two.
  [[nodiscard]] double x(int on) const {
    auto const place = std::ranges::find(replicas, on) - replicas.begin();
    auto const gaps = std::max<double>(static_cast<double>(replicas.size()) - 1, 1);
    return kPanelWidth * static_cast<double>(place) / gaps;
  }
};

template <class Figure>
std::string panel(Json const& points,
                  Sweep const& sweep,
                  double left,
                  std::string const& title,
                  Figure const& figure) {
  double most = 0;
  for (auto const& point : points) {
    most = std::max(most, figure(point));
  }
  double const step = tick_below(most);
  double const top = std::max(std::ceil(most / step), 1.0) * step;
  auto const y = [&](double value) { return kTop + kPanelHeight * (1 - value / top); };
  auto out = text(R"(<text class="title" x=")",
                  tenths(left),
                  "\" y=\"",
                  tenths(kTop - 20),
                  R"(" font-size="13">)",
                  title,
                  "</text>\n");
  auto const ticks = static_cast<int>(std::lround(top / step));
  for (int tick = 0; tick <= ticks; ++tick) {
    double const value = tick * step;
    out += text(R"(<line class="tick" x1=")",
                tenths(left),
                "\" y1=\"",
                tenths(y(value)),
                "\" x2=\"",
                tenths(left + kPanelWidth),
                "\" y2=\"",
                tenths(y(value)),
                "\" stroke=\"#dddddd\"/>\n<text x=\"",
                tenths(left - 6),
                "\" y=\"",
                tenths(y(value) + 4),
                R"(" text-anchor="end">)",
                tick_text(value, step),
                "</text>\n");
  }
  for (auto const on : sweep.replicas) {
    out += text("<text x=\"",
                tenths(left + sweep.x(on)),
                "\" y=\"",
                tenths(kTop + kPanelHeight + 18),
                R"(" text-anchor="middle">)",
                on,
                "</text>\n");
  }
  for (std::size_t i = 0; i < sweep.settings.size(); ++i) {
    auto const* const colour = kPalette[i % kPalette.size()];
    std::string path;
    std::string dots;
    for (auto const& point : points) {
      if (point.at("setting") != sweep.settings[i]) {
        continue;
      }
      auto const at = text(tenths(left + sweep.x(point.at("replicas").get<int>())));
      auto const height = tenths(y(figure(point)));
      path += text(path.empty() ? "" : " ", at, ",", height);
      dots += text(R"(<circle class="point" cx=")",
                   at,
                   "\" cy=\"",
                   height,
                   R"(" r="3" fill=")",
                   colour,
                   "\"><title>",
                   sweep.settings[i],
                   " on ",
                   point.at("replicas").get<int>(),
                   ": ",
                   ms::cli::fixed(figure(point), 3),
                   "</title></circle>\n");
    }
    out += text(R"(<polyline class="setting" points=")",
                path,
                R"(" fill="none" stroke=")",
                colour,
                "\" stroke-width=\"2\"/>\n",
                dots);
  }
  return out;
}

}  // namespace

std::string sweep_svg(Json const& points) {
  Sweep const sweep(points);
  double const second = kLeft + kPanelWidth + kBetween;
  double const legend = kTop + kPanelHeight + 50;
  auto out = text(R"(<svg xmlns="http://www.w3.org/2000/svg" width=")",
                  tenths(second + kPanelWidth + 30),
                  "\" height=\"",
                  tenths(legend + kLegendLine * static_cast<double>(sweep.settings.size())),
                  "\" font-family=\"sans-serif\" font-size=\"11\">\n",
                  "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  out += panel(points, sweep, kLeft, "queries a second, by replicas", [](Json const& point) {
    return point.at("queries_per_s").get<double>();
  });
  out +=
      panel(points, sweep, second, "p99 of the latency in ms, by replicas", [](auto const& point) {
        return point.at("latency_ms").at("p99").template get<double>();
      });
  for (std::size_t i = 0; i < sweep.settings.size(); ++i) {
    auto const y = legend + kLegendLine * static_cast<double>(i);
    out += text("<rect x=\"",
                tenths(kLeft),
                "\" y=\"",
                tenths(y - 9),
                R"(" width="10" height="10" fill=")",
                kPalette[i % kPalette.size()],
                "\"/>\n<text class=\"legend\" x=\"",
                tenths(kLeft + 16),
                "\" y=\"",
                tenths(y),
                "\">",
                sweep.settings[i],
                "</text>\n");
  }
  return out + "</svg>\n";
}

}  // namespace serve_wdl
