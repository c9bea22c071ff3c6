// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/picture.hpp"

#include "base/xml_text.hpp"
#include "overlap/show/colours.hpp"
#include "overlap/show/svg_drawing.hpp"
#include "overlap/show/text.hpp"
#include "overlap/show/wait_arrows.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr double kMargin = 14;
constexpr double kLabels = 150;  ///< the width of the names of lanes
constexpr double kLane = 22;
constexpr double kWideLetter = SvgDrawing::kWideLetter;
constexpr std::string_view kText = SvgDrawing::kText;
constexpr std::string_view kFaint = SvgDrawing::kFaint;

/// Returns the name of a kernel without its namespaces, template arguments and parameters.
std::string_view short_name(std::string_view name) {
  constexpr std::string_view kReturned = "void ";
  name.remove_prefix(name.starts_with(kReturned) ? kReturned.size() : 0);
  auto const anonymous = name.find("(anonymous namespace)::");
  if (anonymous != std::string_view::npos) {
    name.remove_prefix(anonymous + std::string_view("(anonymous namespace)::").size());
  }
  auto const end = name.find_first_of("<(");
  auto const shorter = name.substr(0, end == 0 ? std::string_view::npos : end);
  auto const scope = shorter.rfind("::");
  return scope == std::string_view::npos ? shorter : shorter.substr(scope + 2);
}

/// Draws a report as the elements of a picture, from a height on.
class ReportPicture {
 public:
  ReportPicture(Explained const& explained, PictureOptions const& options, double top)
      : recording_(explained.recording),
        report_(explained.report),
        options_(options),
        right_(std::max(options.width, 400) - kMargin),
        y_(top) {
    for (auto const& arrow : wait_arrows(recording_)) {
      if (is_inside(recording_.activities[arrow.from].time) &&
          is_inside(recording_.activities[arrow.to].time)) {
        arrows_.push_back(arrow);
      }
    }
    if (arrows_.size() > options_.most_arrows) {
      arrows_.clear();
    }
    for (auto const& arrow : arrows_) {
      places_[arrow.from];
      places_[arrow.to];
    }
  }

  std::string elements() {
    auto const title =
        fmt::format("{} · {}", title_of(recording_), duration_text(report_.window.length()));
    auto const& heading = options_.only_timeline ? title : report_.verdict;
    y_ += 16;
    text(kMargin, heading, "font-weight=\"600\" font-size=\"14\"");
    if (!options_.only_timeline) {
      y_ += 16;
      text(kMargin, title, "", kFaint);
    }
    for (auto const& device : report_.devices) {
      draw(device);
    }
    draw_threads();
    draw_axis();
    if (!options_.only_timeline) {
      draw_legend();
      draw_findings();
    }
    y_ += 6;
    return svg_.take();
  }
  [[nodiscard]] double bottom() const noexcept { return y_; }

 private:
  struct Lane {
    std::string title;
    std::vector<Index> items;
    Ns busy = 0;
  };

  [[nodiscard]] double x_of(Ns instant) const {
    auto const length = static_cast<double>(std::max<Ns>(report_.window.length(), 1));
    auto const share = static_cast<double>(instant - report_.window.begin) / length;
    return left_ + std::clamp(share, 0.0, 1.0) * (right_ - left_);
  }

  /// Writes a text at a place, cut to the room that it has.
  void text(double x,
            std::string_view words,
            std::string_view attributes = {},
            std::string_view colour = kText) {
    svg_.text(x, y_, right_ - x, words, attributes, colour);
  }

  [[nodiscard]] bool is_inside(Interval const& time) const { return is_in(time, report_.window); }

  /// Returns the streams of a device that have activities in the window, in their order; the
  /// busiest if there are too many.
  [[nodiscard]] std::vector<Lane> lanes_of(Index device, std::size_t& left_out) const {
    std::map<Index, Lane> by_stream;
    for (std::size_t i = 0; i < recording_.activities.size(); ++i) {
      auto const& activity = recording_.activities[i];
      auto const& stream = recording_.streams.at(activity.stream);
      if (stream.device == device && is_inside(activity.time)) {
        auto& lane = by_stream[activity.stream];
        lane.items.push_back(static_cast<Index>(i));
        lane.busy += activity.time.length();
      }
    }
    std::vector<Lane> lanes;
    for (auto& [stream, lane] : by_stream) {
      lanes.push_back(std::move(lane));
    }
    left_out = keep_largest(lanes, options_.most_streams, &Lane::busy);
    for (auto& lane : lanes) {
      auto const& activity = recording_.activities[lane.items.front()];
      lane.title = title_of(recording_, recording_.streams[activity.stream]);
    }
    return lanes;
  }

  /// Removes the lanes with the smallest sizes, so that at most `most` are left, in their order.
  /// Returns how many were removed.
  template <class Size>
  static std::size_t keep_largest(std::vector<Lane>& lanes, std::size_t most, Size size) {
    if (lanes.size() <= most) {
      return 0;
    }
    std::vector<std::size_t> by_size(lanes.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    // The last of equal ones goes first.
    std::ranges::stable_sort(
        by_size, std::greater(), [&](std::size_t lane) { return std::invoke(size, lanes[lane]); });
    auto const removed = by_size.size() - most;
    by_size.resize(most);
    std::ranges::sort(by_size);
    std::vector<Lane> kept;
    for (auto const lane : by_size) {
      kept.push_back(std::move(lanes[lane]));
    }
    lanes = std::move(kept);
    return removed;
  }

  void draw(DeviceReport const& device) {
    y_ += 24;
    auto const busy = share_text(device.busy, report_.window.length());
    text(kMargin,
         fmt::format("{} · {} busy", title_of(recording_.devices.at(device.device)), busy),
         "font-weight=\"600\"");
    y_ += 8;
    std::size_t left_out = 0;
    auto const lanes = lanes_of(device.device, left_out);
    if (!options_.only_timeline) {
      // The bar says where the time went.
      draw_spans(device, y_, 9, "");
      y_ += 12;
      auto const height = kLane * static_cast<double>(lanes.size());
      draw_spans(device, y_, height, "fill-opacity=\"0.2\"", true);
    }
    for (auto const& lane : lanes) {
      y_ += 15;
      name_lane(lane.title);
      BoxRow row(svg_, top_of_box());
      for (auto const index : lane.items) {
        auto const& activity = recording_.activities[index];
        if (auto const place = places_.find(index); place != places_.end()) {
          place->second = {x_of(activity.time.begin), x_of(activity.time.end), y_ - 4};
        }
        row.add(x_of(activity.time.begin),
                x_of(activity.time.end),
                colour_of(kind_of(activity)),
                short_name(recording_.names[activity.name]));
      }
      y_ += kLane - 15;
    }
    if (left_out > 0) {
      y_ += 14;
      text(left_, fmt::format("{} more streams, with less work", left_out), "", kFaint);
    }
  }

  [[nodiscard]] double top_of_box() const { return y_ - 12.5; }

  void name_lane(std::string_view title) { svg_.text(kMargin, y_, kLabels - 10, title); }

  /// Draws the classes of time, or those alone that have a cause.
  void draw_spans(DeviceReport const& device,
                  double y,
                  double height,
                  std::string_view attributes,
                  bool causes_alone = false) {
    double drawn_to = left_;
    for (auto const& span : device.spans) {
      auto const end = x_of(span.time.end);
      auto const begin = std::max(drawn_to, x_of(span.time.begin));
      // The first of several spans in one pixel is drawn.
      if ((causes_alone && !span.cause) || end - begin < 0.5) {
        continue;
      }
      svg_.box(begin, y, end - begin, height, colour_of(span), attributes);
      drawn_to = end;
    }
  }

  void draw_threads() {
    std::map<Index, Lane> by_thread;
    for (std::size_t i = 0; i < recording_.calls.size(); ++i) {
      auto const& call = recording_.calls[i];
      if (is_inside(call.time)) {
        by_thread[call.thread].items.push_back(static_cast<Index>(i));
      }
    }
    std::vector<Lane> lanes;
    for (auto& [thread, lane] : by_thread) {
      auto const& of = recording_.threads.at(thread);
      auto const name = recording_.names[of.name];
      lane.title = name.empty() ? fmt::format("calls, thread {}", of.number)
                                : fmt::format("calls, {}", name);
      lane.busy = static_cast<Ns>(lane.items.size());
      lanes.push_back(std::move(lane));
    }
    keep_largest(lanes, options_.most_threads, &Lane::busy);
    y_ += lanes.empty() ? 0 : 6;
    for (auto const& lane : lanes) {
      y_ += 15;
      name_lane(lane.title);
      BoxRow row(svg_, top_of_box());
      for (auto const index : lane.items) {
        auto const& [time, name, thread, kind, code] = recording_.calls[index];
        row.add(x_of(time.begin), x_of(time.end), colour_of(kind), recording_.names[name]);
      }
      y_ += kLane - 15;
    }
    draw_arrows();
  }

  void draw_arrows() {
    for (auto const& arrow : arrows_) {
      auto const& from = places_[arrow.from];
      auto const& to = places_[arrow.to];
      if (from.y == 0 || to.y == 0) {
        continue;  // in a stream that is not drawn
      }
      svg_.add(fmt::format(
          "<path d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" "
          "stroke=\"{}\" stroke-opacity=\"0.7\" marker-end=\"url(#head)\"/>\n",
          from.end,
          from.y,
          from.end + 8,
          from.y,
          to.begin - 8,
          to.y,
          to.begin,
          to.y,
          kText));
    }
  }

  void draw_axis() {
    constexpr double kTicks = 6;
    auto const length = static_cast<double>(std::max<Ns>(report_.window.length(), 1));
    auto const power = std::pow(10.0, std::floor(std::log10(length / kTicks)));
    double step = 10 * power;
    for (double const times : {5.0, 2.0, 1.0}) {
      step = times * power >= length / kTicks ? times * power : step;
    }
    y_ += 4;
    svg_.add(fmt::format("<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"{3}\"/>\n",
                         left_,
                         y_,
                         right_,
                         SvgDrawing::kLine));
    auto const axis = y_;
    y_ += 15;
    for (double at = 0; at <= length; at += std::max(step, 1.0)) {
      auto const x = left_ + at / length * (right_ - left_);
      svg_.add(fmt::format("<path d=\"M{0:.1f} {1:.1f}v4\" stroke=\"{2}\"/>\n", x, axis, kFaint));
      auto const words = at == 0 ? "0" : duration_text(static_cast<Ns>(std::llround(at)));
      auto const half = static_cast<double>(width_of(words)) * kWideLetter / 2;
      auto const anchor = x + half > right_ ? "end" : "middle";
      svg_.add(
          fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n",
                      x,
                      y_,
                      kFaint,
                      anchor,
                      words));
    }
  }

  /// Explains the colours of time: those that take part in any device's window.
  void draw_legend() {
    std::map<std::pair<TimeClass, std::optional<Cause>>, Ns> sums;
    for (auto const& device : report_.devices) {
      for (auto const& time : device.times) {
        sums[{time.kind, time.cause}] += time.time;
      }
    }
    auto const whole =
        report_.window.length() * static_cast<Ns>(std::max<std::size_t>(report_.devices.size(), 1));
    y_ += 22;
    double x = kMargin;
    for (auto const& [what, time] : sums) {
      if (time == 0) {
        continue;
      }
      auto const& [kind, cause] = what;
      std::string words;
      if (kind == TimeClass::overlapped) {
        words = "two or more at once";
      } else if (kind == TimeClass::alone) {
        words = "one alone";
      } else {
        words = fmt::format("{}: {}", id_of(kind), text_of(cause.value_or(Cause::unknown)).id);
      }
      words += fmt::format(" {}", share_text(time, whole));
      auto const width = 20 + kWideLetter * static_cast<double>(width_of(words));
      if (x + width > right_ && x > kMargin) {
        x = kMargin;
        y_ += 18;
      }
      svg_.box(x, y_ - 9, 10, 10, colour_of(ClassSpan{{}, kind, cause}), "rx=\"2\"");
      text(x + 15, words);
      x += width + 14;
    }
  }

  void draw_findings() {
    std::size_t drawn = 0;
    for (auto const& finding : report_.findings) {
      if (drawn++ == options_.most_findings) {
        break;
      }
      y_ += drawn == 1 ? 24 : 18;
      svg_.box(kMargin, y_ - 11, 4, 14, colour_of(finding.cause));
      auto words = fmt::format("{}: {} lost ({}). {}",
                               text_of(finding.cause).id,
                               duration_text(finding.lost),
                               share_text(finding.lost, report_.window.length()),
                               finding.summary);
      if (auto const& gain = finding.prediction) {
        words += fmt::format(" Gain, predicted: {} {}", gain_text(*gain), gain_range_text(*gain));
      }
      auto const room =
          static_cast<std::size_t>(std::max(20.0, (right_ - kMargin - 10) / kWideLetter));
      bool is_first = true;
      for (auto const& line : wrapped(printable(words), room)) {
        y_ += is_first ? 0 : 15;
        is_first = false;
        text(kMargin + 10, line);
      }
    }
  }

  struct Place {
    double begin = 0;
    double end = 0;
    double y = 0;
  };

  Recording const& recording_;
  Report const& report_;
  PictureOptions options_;
  double left_ = kMargin + kLabels;
  double right_;
  double y_;
  std::vector<WaitArrow> arrows_;
  std::map<Index, Place> places_;  ///< of the ends of arrows
  SvgDrawing svg_;
};

}  // namespace

std::string svg_text(std::span<Explained const> reports, PictureOptions const& options) {
  double height = kMargin;
  std::string elements;
  for (auto const& explained : reports) {
    ReportPicture picture(explained, options, height);
    elements += picture.elements();
    height = picture.bottom() + kMargin;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0} {1:.0f}\" font-size=\"11.5\" "
      "font-family=\"system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\">\n"
      "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"5.5\" refY=\"3\" markerWidth=\"5\" "
      "markerHeight=\"5\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" "
      "fill=\"{2}\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\" "
      "stroke=\"{3}\"/>\n{4}</svg>\n",
      std::max(options.width, 400),
      height,
      kText,
      SvgDrawing::kLine,
      elements);
}

}  // namespace msstream::overlap
