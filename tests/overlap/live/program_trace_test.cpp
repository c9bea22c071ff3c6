// SPDX-License-Identifier: Apache-2.0
// Tests reports whose times come from CUPTI, without a GPU: the operations of the host runtime make
// a CUPTI of our own record launches.
#include "overlap/live/overlap_contents.hpp"
#include "overlap/record/settings.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/overlap/report.hpp>
#include <msstream/step/detail/step_recording.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

namespace fs = std::filesystem;
using detail::StepWatch;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// Sets a variable of the environment while it lives.
class TraceVariable {
 public:
  TraceVariable(char const* name, std::string const& value) : name_(name) {
    if (char const* const before = std::getenv(name)) {
      before_ = before;
    }
    setenv(name, value.c_str(), 1);
  }
  TraceVariable(TraceVariable const&) = delete;
  TraceVariable& operator=(TraceVariable const&) = delete;
  ~TraceVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  char const* name_;
  std::optional<std::string> before_;
};

class OverlapProgramTrace : public ::testing::Test {
 protected:
  OverlapProgramTrace() {
    std::string pattern = ::testing::TempDir() + "overlap_trace.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    temporary_.emplace("TMPDIR", folder_.string());
  }
  ~OverlapProgramTrace() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  void SetUp() override {
    if (std::string(MSSTREAM_OVERLAP_RECORDER).empty()) {
      GTEST_SKIP() << "this build has no recorder: it needs the header cupti.h";
    }
    for (char const* const name : {"libcupti.so.13", "libcupti.so.12"}) {
      if (dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr) {
        GTEST_SKIP() << "an earlier test of this process has loaded " << name;
      }
    }
    void* const cupti = dlopen(MSSTREAM_OVERLAP_FAKE_CUPTI, RTLD_NOW);
    ASSERT_NE(cupti, nullptr) << dlerror();
    launch_ = reinterpret_cast<decltype(launch_)>(dlsym(cupti, "fake_launch_on"));
    kinds_ = reinterpret_cast<decltype(kinds_)>(dlsym(cupti, "fake_kinds"));
    has_client_ = reinterpret_cast<decltype(has_client_)>(dlsym(cupti, "fake_has_client"));
  }

  /// Issues an operation whose launch makes calls that launch kernels.
  void issue_kernels(char const* operation,
                     Tensor<float, Host> const& from,
                     Tensor<float, Host> const& to,
                     std::vector<char const*> kernels,
                     std::uint32_t stream) const {
    issue(operation, reads(from), writes(to), [launch = launch_, kernels, stream](HostStream) {
      for (auto const* const kernel : kernels) {
        launch(kernel, stream);
      }
    });
  }

  /// Watches two steps after one that warms up.
  static std::shared_ptr<detail::OverlapContents const> watch(Device<Host> const& device,
                                                              std::function<void()> const& step) {
    StepWatch watch(device.engine(), StepWatch::steady_ns, StepWatch::Times::cupti);
    step();
    watch.begin();
    for (int i = 0; i < 2; ++i) {
      watch.begin_step();
      step();
    }
    return watch.finish();
  }

  static std::map<std::string, int> kernels_of(overlap::Recording const& recording) {
    std::map<std::string, int> counts;
    for (auto const& activity : recording.activities) {
      ++counts[std::string(recording.names[activity.name])];
    }
    return counts;
  }
  /// Returns the names of the ranges in which the call of an activity lies.
  static std::vector<std::string> ranges_of(overlap::Recording const& recording,
                                            std::string const& kernel) {
    std::vector<std::string> names;
    for (auto const& activity : recording.activities) {
      if (recording.names[activity.name] != kernel || activity.call == overlap::kNone) {
        continue;
      }
      auto const& call = recording.calls[activity.call];
      auto const middle = call.time.begin + call.time.length() / 2;
      for (auto const& range : recording.ranges) {
        if (range.thread == call.thread && range.time.begin <= middle && middle <= range.time.end) {
          names.emplace_back(recording.names[range.name]);
        }
      }
    }
    return names;
  }
  static void expect_sum(detail::OverlapContents const& contents) {
    std::int64_t sum = 0;
    for (auto const& time : contents.times) {
      sum += time.ns;
    }
    EXPECT_EQ(sum, contents.report.window.length());
    EXPECT_GT(sum, 0);
  }

  fs::path folder_;
  std::optional<TraceVariable> temporary_;
  TraceVariable recorder_{"MSSTREAM_OVERLAP_RECORDER", MSSTREAM_OVERLAP_RECORDER};
  TraceVariable cupti_{overlap::record::variable::kCupti, MSSTREAM_OVERLAP_FAKE_CUPTI};
  void (*launch_)(char const*, std::uint32_t) = nullptr;
  std::size_t (*kinds_)() = nullptr;
  bool (*has_client_)() = nullptr;
  Device<Host> device_;
  Tensor<float, Host> x_{device_, {10}};
  Tensor<float, Host> y_{device_, {10}};
  Tensor<float, Host> z_{device_, {10}};
};

TEST_F(OverlapProgramTrace, operations_own_the_kernels_that_their_launches_launch) {
  StreamPool pool(device_, {.groups = 2, .log = nullptr});
  auto const contents = watch(device_, [&] {
    issue_kernels("scale", x_, y_, {"scale_first", "scale_second"}, 21);
    StreamScope const scope(pool[1]);
    issue_kernels("nothing", y_, y_, {}, 22);
    issue_kernels("add", y_, z_, {"add_kernel"}, 22);
  });
  auto const& recording = contents->recording;
  EXPECT_THAT(
      kernels_of(recording),
      ElementsAre(
          std::pair("add_kernel", 2), std::pair("scale_first", 2), std::pair("scale_second", 2)))
      << "the step that warms up is left out";
  EXPECT_THAT(ranges_of(recording, "scale_second"),
              ElementsAre("step 1", "scale", "step 2", "scale"));
  EXPECT_THAT(ranges_of(recording, "add_kernel"), ElementsAre("step 1", "add", "step 2", "add"));
  for (auto const& stream : recording.streams) {
    EXPECT_THAT(std::string(recording.names[stream.name]),
                HasSubstr(stream.number == 22 ? "group 1" : "default"));
  }
  EXPECT_TRUE(recording.has_dependencies);
  std::vector<std::pair<int, int>> dependencies;
  for (auto const& dependency : recording.dependencies) {
    dependencies.emplace_back(dependency.before, dependency.after);
  }
  // A step runs the activities 0, 1 (scale) and 2 (add), the next one 3, 4 and 5. The second scale
  // overwrites what the first one wrote and the addition read.
  EXPECT_THAT(dependencies,
              UnorderedElementsAre(std::pair(0, 1),
                                   std::pair(1, 2),
                                   std::pair(1, 3),
                                   std::pair(2, 3),
                                   std::pair(3, 4),
                                   std::pair(4, 5),
                                   std::pair(2, 5)));
  EXPECT_THAT(recording.notes.front(), HasSubstr("2 steps, by CUPTI 13.0"));
  expect_sum(*contents);
  EXPECT_THAT(contents->report.notes, Contains(HasSubstr("by CUPTI")));
  EXPECT_EQ(kinds_(), 0U) << "CUPTI traces on";
  EXPECT_FALSE(has_client_()) << "nobody else may use CUPTI";
  EXPECT_TRUE(fs::is_empty(folder_)) << "a file is left";
}

TEST_F(OverlapProgramTrace, kernels_that_bypass_issue_are_in_the_report) {
  for (int report = 0; report < 2; ++report) {
    auto const contents = watch(device_, [&] {
      issue_kernels("scale", x_, y_, {"scale_kernel"}, 21);
      launch_("raw_kernel", 30);
    });
    auto const& recording = contents->recording;
    EXPECT_THAT(kernels_of(recording),
                ElementsAre(std::pair("raw_kernel", 2), std::pair("scale_kernel", 2)));
    EXPECT_THAT(ranges_of(recording, "raw_kernel"), ElementsAre("step 1", "step 2"));
    EXPECT_FALSE(recording.has_dependencies) << "nobody declared what the kernel needs";
    EXPECT_THAT(recording.notes, Contains(HasSubstr("2 of 4 activities are no part")));
    expect_sum(*contents);
  }
}

TEST_F(OverlapProgramTrace, steps_without_an_operation_of_msstream_are_reported) {
  auto const contents = watch(device_, [&] { launch_("raw_kernel", 30); });
  EXPECT_THAT(kernels_of(contents->recording), ElementsAre(std::pair("raw_kernel", 2)));
  EXPECT_THROW((void)watch(device_, [] {}), std::invalid_argument);
  EXPECT_THROW((void)watch(device_, [&] { issue_kernels("nothing", x_, y_, {}, 21); }),
               std::invalid_argument);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(OverlapProgramTrace, without_a_recorder_events_take_the_times_and_the_report_says_why) {
  auto const notes_of = [&] {
    auto const contents =
        watch(device_, [&] { issue_kernels("scale", x_, y_, {"scale_kernel"}, 21); });
    EXPECT_THAT(kernels_of(contents->recording), ElementsAre(std::pair("scale", 2)));
    EXPECT_TRUE(fs::is_empty(folder_));
    return contents->recording.notes;
  };
  {
    TraceVariable const hidden("MSSTREAM_OVERLAP_RECORDER", "/no/such/recorder.so");
    EXPECT_THAT(notes_of(), Contains(HasSubstr("there is no /no/such/recorder.so, which")));
  }
  {
    TraceVariable const wrong("MSSTREAM_OVERLAP_RECORDER", MSSTREAM_OVERLAP_FAKE_CUPTI);
    EXPECT_THAT(notes_of(), Contains(HasSubstr("is of an older msstream")));
  }
  {
    TraceVariable const missing(overlap::record::variable::kCupti, "/no/such/cupti.so");
    EXPECT_THAT(notes_of(), Contains(HasSubstr("cannot load CUPTI: /no/such/cupti.so")));
  }
  {
    TraceVariable const other("FAKE_CUPTI_CLIENT", "CUPTI for Another");
    EXPECT_THAT(notes_of(), Contains(HasSubstr("process: CUPTI for Another; only one can")));
  }
}

TEST_F(OverlapProgramTrace, one_report_at_a_time_uses_cupti) {
  Device<Host> other;
  Tensor<float, Host> const values(other, {10});
  bool nested = false;
  auto const contents = watch(device_, [&] {
    issue_kernels("scale", x_, y_, {"scale_kernel"}, 21);
    if (std::exchange(nested, true)) {
      return;
    }
    auto const inner = watch(other, [&] { issue_kernels("inner", values, values, {}, 21); });
    EXPECT_THAT(inner->recording.notes, Contains(HasSubstr("is being recorded for another")));
  });
  EXPECT_THAT(kernels_of(contents->recording), Contains(std::pair("scale_kernel", 2)));
}

TEST_F(OverlapProgramTrace, operations_that_cupti_traces_are_not_timed_by_events_too) {
  detail::StepRecording recording(device_.engine());
  issue_kernels("scale", x_, y_, {}, 21);
  auto const trace = recording.finish();
  ASSERT_EQ(trace.operations().size(), 1U);
  EXPECT_EQ(trace.operations().front().end_ns, 0) << "an event took the time";
  detail::StepRecording timed(device_.engine(), SpanTiming::as_issued);
  issue_kernels("scale", x_, y_, {}, 21);
  EXPECT_GT(timed.finish().operations().front().end_ns, 0);
}

TEST_F(OverlapProgramTrace, ends_with_a_step_that_throws) {
  EXPECT_THROW((void)watch(device_, [] { throw std::runtime_error("no such row"); }),
               std::runtime_error);
  EXPECT_EQ(kinds_(), 0U);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace msstream::testing
