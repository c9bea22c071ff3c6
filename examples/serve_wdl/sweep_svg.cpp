// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace serve_wdl {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array kPalette{"#4477aa", "#ee6677", "#228833", "#ccbb44", "#aa3377"};
constexpr double kPanelWidth = 420;
constexpr double kPanelHeight = 260;
constexpr double kLeft = 80;
constexpr double kTop = 50;
constexpr double kBetween = 110;
constexpr double kLegendLine = 18;

std::string tenths(double value) {
  return ms::report::fixed(value, 1);
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
    return ms::report::grouped(std::llround(value));
  }
  return ms::report::fixed(value, static_cast<int>(std::ceil(-std::log10(step))));
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
  /// Returns the x coordinate of a number of replicas. Neighbours on the axis have equal distances,
  /// since the numbers are usually powers of two.
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
  auto out = fmt::format(R"(<text class="title" x="{}" y="{}" font-size="13">{}</text>)"
                         "\n",
                         tenths(left),
                         tenths(kTop - 20),
                         title);
  auto const ticks = static_cast<int>(std::lround(top / step));
  for (int tick = 0; tick <= ticks; ++tick) {
    double const value = tick * step;
    out += fmt::format(R"(<line class="tick" x1="{}" y1="{}" x2="{}" y2="{}" )"
                       R"(stroke="#dddddd"/>)"
                       "\n"
                       R"(<text x="{}" y="{}" text-anchor="end">{}</text>)"
                       "\n",
                       tenths(left),
                       tenths(y(value)),
                       tenths(left + kPanelWidth),
                       tenths(y(value)),
                       tenths(left - 6),
                       tenths(y(value) + 4),
                       tick_text(value, step));
  }
  for (auto const on : sweep.replicas) {
    out += fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)"
                       "\n",
                       tenths(left + sweep.x(on)),
                       tenths(kTop + kPanelHeight + 18),
                       on);
  }
  for (std::size_t i = 0; i < sweep.settings.size(); ++i) {
    auto const* const colour = kPalette[i % kPalette.size()];
    std::string path;
    std::string dots;
    for (auto const& point : points) {
      if (point.at("setting") != sweep.settings[i]) {
        continue;
      }
      auto const at = tenths(left + sweep.x(point.at("replicas").get<int>()));
      auto const height = tenths(y(figure(point)));
      path += fmt::format("{}{},{}", path.empty() ? "" : " ", at, height);
      dots += fmt::format(R"(<circle class="point" cx="{}" cy="{}" r="3" fill="{}"><title>{} on )"
                          "{}: {}</title></circle>\n",
                          at,
                          height,
                          colour,
                          sweep.settings[i],
                          point.at("replicas").get<int>(),
                          ms::report::fixed(figure(point), 3));
    }
    out += fmt::format(R"(<polyline class="setting" points="{}" fill="none" stroke="{}" )"
                       R"(stroke-width="2"/>)"
                       "\n"
                       "{}",
                       path,
                       colour,
                       dots);
  }
  return out;
}

}  // namespace

std::string sweep_svg(Json const& points) {
  Sweep const sweep(points);
  double const second = kLeft + kPanelWidth + kBetween;
  double const legend = kTop + kPanelHeight + 50;
  auto out = fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" )"
                         R"(font-family="sans-serif" font-size="11">)"
                         "\n"
                         R"(<rect width="100%" height="100%" fill="white"/>)"
                         "\n",
                         tenths(second + kPanelWidth + 30),
                         tenths(legend + kLegendLine * static_cast<double>(sweep.settings.size())));
  out += panel(points, sweep, kLeft, "queries a second, by replicas", [](Json const& point) {
    return point.at("queries_per_s").get<double>();
  });
  out +=
      panel(points, sweep, second, "p99 of the latency in ms, by replicas", [](auto const& point) {
        return point.at("latency_ms").at("p99").template get<double>();
      });
  for (std::size_t i = 0; i < sweep.settings.size(); ++i) {
    auto const y = legend + kLegendLine * static_cast<double>(i);
    out += fmt::format(R"(<rect x="{}" y="{}" width="10" height="10" fill="{}"/>)"
                       "\n"
                       R"(<text class="legend" x="{}" y="{}">{}</text>)"
                       "\n",
                       tenths(kLeft),
                       tenths(y - 9),
                       kPalette[i % kPalette.size()],
                       tenths(kLeft + 16),
                       tenths(y),
                       sweep.settings[i]);
  }
  return out + "</svg>\n";
}

}  // namespace serve_wdl
