// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/python_frames.hpp"

#include "overlap/recording/python_line.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace msstream::overlap {

bool has_line(std::string_view name, bool& is_of_torch) {
  auto const file = file_of_python_line(name);
  is_of_torch =
      file && (file->starts_with("torch/") || file->find("/torch/") != std::string_view::npos);
  return file.has_value();
}

void PythonFrames::add(
    Interval time, std::string_view name, std::int64_t process, std::int64_t thread, Names& names) {
  bool is_of_torch = false;
  if (time.length() < 0 || !has_line(name, is_of_torch)) {
    return;
  }
  Row const row(process, thread);
  if (last_ == nullptr || row != last_row_) {
    last_row_ = row;
    last_ = &frames_[row];
  }
  last_->push_back({time, names.id_of(name), is_of_torch});
}

void PythonFrames::name_calls(Recording& recording) {
  std::vector<std::vector<Index>> calls(frames_.empty() ? 0 : recording.threads.size());
  for (Index i = 0; i < recording.calls.size() && !calls.empty(); ++i) {
    calls[recording.calls[i].thread].push_back(i);
  }
  for (std::size_t thread = 0; thread < calls.size(); ++thread) {
    auto const found =
        frames_.find({recording.threads[thread].process, recording.threads[thread].number});
    if (found == frames_.end()) {
      continue;
    }
    auto const begin_of = [&](Index call) { return recording.calls[call].time.begin; };
    std::ranges::stable_sort(calls[thread], {}, begin_of);
    auto& frames = found->second;
    // The outer one of functions that begin together is the longer one, or the first in the file.
    std::ranges::stable_sort(frames, [](Frame const& a, Frame const& b) {
      return a.time.begin != b.time.begin ? a.time.begin < b.time.begin : a.time.end > b.time.end;
    });
    struct Open {
      Ns end = 0;
      NameId name = 0;
      NameId outside_torch = 0;  ///< the innermost one of this function and those around it
    };
    std::vector<Open> open;
    std::size_t next = 0;
    for (auto const call : calls[thread]) {
      auto const begin = begin_of(call);
      auto const close = [&open](Ns at) {
        while (!open.empty() && open.back().end <= at) {
          open.pop_back();
        }
      };
      for (; next < frames.size() && frames[next].time.begin <= begin; ++next) {
        auto const& frame = frames[next];
        close(frame.time.begin);
        auto const around = open.empty() ? 0 : open.back().outside_torch;
        open.push_back({frame.time.end, frame.name, frame.is_of_torch ? around : frame.name});
      }
      close(begin);
      if (!open.empty()) {
        auto const& inner = open.back();
        recording.calls[call].code = inner.outside_torch != 0 ? inner.outside_torch : inner.name;
      }
    }
  }
  frames_.clear();
  last_ = nullptr;
}

}  // namespace msstream::overlap
