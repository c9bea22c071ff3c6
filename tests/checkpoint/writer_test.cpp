// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "checkpoint/snapshot_writer.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/checkpoint/writer.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace msstream::testing {
namespace {

using checkpoint::Tensors;
using checkpoint::Writer;
using checkpoint::WriterOptions;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

/// A few tensors of odd sizes, all bytes of which are the number of the last step.
template <class R>
struct SmallModel {
  explicit SmallModel(Device<R> const& on)
      : device(on),
        ids(zeros<std::int64_t>(on, {33})),
        table(zeros<float>(on, {127, 3})),
        half(zeros<float16>(on, {4097})),
        none(zeros<float>(on, {0, 3})),
        count(zeros<std::uint8_t>(on, {7})) {}

  void step(std::uint8_t number) const {
    fill_bytes(ids, number);
    fill_bytes(table, number);
    fill_bytes(half, number);
    fill_bytes(count, number);
  }
  [[nodiscard]] Tensors tensors() const { return Tensors().add(*this); }
  template <class Visit>
  void visit(Visit&& visit) const {
    visit("ids", ids);
    visit("table", table);
    visit("half", half);
    visit("none", none);
    visit("count", count);
  }

  Device<R> device;
  Tensor<std::int64_t, R> ids;
  Tensor<float, R> table;
  Tensor<float16, R> half;
  Tensor<float, R> none;
  Tensor<std::uint8_t, R> count;
};

/// Returns all bytes of a file's tensors that differ from the others, each once.
std::vector<int> bytes_of_tensors(std::filesystem::path const& path) {
  checkpoint::SafetensorsFile const file(path);
  std::vector<int> found;
  for (auto const& [name, tensor] : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    file.read(tensor, 0, bytes);
    for (auto const byte : bytes) {
      if (std::ranges::find(found, static_cast<int>(byte)) == found.end()) {
        found.push_back(static_cast<int>(byte));
      }
    }
  }
  return found;
}

template <class R>
class WriterTest : public RuntimeTest<R> {
 protected:
  [[nodiscard]] WriterOptions options(WriterOptions changed = {}) const {
    changed.folder = folder_.path();
    return changed;
  }
  TemporaryFolder folder_;
};
TYPED_TEST_SUITE(WriterTest, Runtimes, RuntimeNames);

TYPED_TEST(WriterTest, a_checkpoint_has_the_values_of_its_step) {
  for (std::size_t const device_bytes :
       {std::size_t{0}, std::size_t{700}, std::size_t{9000}, std::size_t{10'000}, kEverything}) {
    for (std::size_t const pinned_bytes : {1024, 5000, 1 << 20}) {
      SCOPED_TRACE("device " + std::to_string(device_bytes) + ", pinned " +
                   std::to_string(pinned_bytes));
      Device<TypeParam> const device;
      StreamPool pool(device, {.groups = 1});
      StreamScope const scope(pool[0]);
      SmallModel<TypeParam> const model(device);
      Writer writer(model.tensors(),
                    this->options({.device_bytes = device_bytes, .pinned_bytes = pinned_bytes}));
      EXPECT_LE(writer.device_bytes(), device_bytes);
      EXPECT_LE(writer.pinned_bytes(), pinned_bytes);
      for (std::uint8_t step = 1; step <= 6; ++step) {
        model.step(step);
        if (step % 2 == 0) {
          writer.save({.step = step});
        }
      }
      writer.wait();
      for (int const step : {2, 4, 6}) {
        EXPECT_THAT(bytes_of_tensors(writer.path_of(step)), ElementsAre(step));
      }
      SmallModel<TypeParam> const loaded(device);
      EXPECT_EQ(checkpoint::load(writer.path_of(4), loaded.tensors()).step, 4);
      EXPECT_THAT(to_host(loaded.ids), Each(0x0404040404040404));
    }
  }
}

/// Snapshots a tensor of which step 1 is complete, step 2 is issued behind a gate before the
/// snapshot, and step 3 is issued after it; returns the bytes that the file has. The tensor is
/// copied on the device first if `staged`.
///
/// s0 = [step 1, gate, step 2, step 3], writer = [copy]
template <class R>
std::vector<int> bytes_behind_gate(bool staged) {
  TemporaryFolder const folder;
  Device<R> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<R> const model(device);
  detail::SnapshotWriter writer(
      model.tensors(), {.folder = folder.path(), .device_bytes = staged ? kEverything : 0});
  model.step(1);
  pool.synchronize();
  Gate gate;
  gate.hold(pool[0].compute());
  model.step(2);
  writer.save({.step = 2}, std::source_location::current());
  model.step(3);
  if constexpr (!keeps_waits<R>) {
    writer.wait();
  }
  gate.open();
  writer.wait();
  return bytes_of_tensors(writer.path_of(2));
}

/// Like bytes_behind_gate(), with the gate before the copies of the snapshot.
///
/// s0 = [step 1, step 2], writer = [gate, copy]
template <class R>
std::vector<int> bytes_before_gate(bool staged) {
  TemporaryFolder const folder;
  Device<R> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<R> const model(device);
  detail::SnapshotWriter writer(
      model.tensors(), {.folder = folder.path(), .device_bytes = staged ? kEverything : 0});
  model.step(1);
  pool.synchronize();
  Gate gate;
  StreamGroup<R> const copies(writer.group());
  gate.hold(staged ? copies.compute() : copies.d2h());
  writer.save({.step = 1}, std::source_location::current());
  model.step(2);
  if constexpr (!keeps_waits<R>) {
    pool.synchronize();
  }
  gate.open();
  writer.wait();
  return bytes_of_tensors(writer.path_of(1));
}

TYPED_TEST(WriterTest, copies_after_the_work_of_its_step_and_before_that_of_the_next) {
  for (bool const staged : {false, true}) {
    EXPECT_THAT(bytes_behind_gate<TypeParam>(staged), ElementsAre(2)) << staged;
    EXPECT_THAT(bytes_before_gate<TypeParam>(staged), ElementsAre(1)) << staged;
  }
}

TEST(WriterWithoutWaits, has_the_values_of_other_steps) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the copies race with the steps on purpose";
#endif
  EXPECT_THAT(bytes_behind_gate<HostWithoutWaits>(false), ElementsAre(1));
  // Step 2 seems to have followed the copy, so the writer takes the copy for complete.
  EXPECT_NE(bytes_before_gate<HostWithoutWaits>(false), std::vector<int>{1});
  // The copy to the host does not even wait for the copy on the device.
  EXPECT_NE(bytes_behind_gate<HostWithoutWaits>(true), std::vector<int>{2});
}

TYPED_TEST(WriterTest, saving_blocks_neither_the_host_nor_the_device) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<TypeParam> const model(device);
  Writer writer(model.tensors(), this->options());
  Gate gate;
  gate.hold(pool[0].compute());
  model.step(1);
  writer.save({.step = 1});
  EXPECT_TRUE(writer.is_writing());
  EXPECT_THAT(this->folder_.names().size(), ::testing::Le(1U)) << "only the unfinished file";
  gate.open();
  writer.wait();
  EXPECT_FALSE(writer.is_writing());
  EXPECT_THAT(this->folder_.names(), ElementsAre("checkpoint-000000001.safetensors"));
}

TYPED_TEST(WriterTest, memory_is_taken_once_and_within_the_bounds) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  auto const live = [&] { return device.memory_statistics().live_bytes; };
  auto const pinned = [&] { return device.pinned_memory_statistics().live_bytes; };
  auto const live_before = live();
  auto const pinned_before = pinned();
  Writer writer(model.tensors(), this->options({.device_bytes = 2048, .pinned_bytes = 4096}));
  EXPECT_EQ(writer.device_bytes(), 2048U);
  EXPECT_EQ(writer.pinned_bytes(), 4096U);
  EXPECT_GE(live() - live_before, 2048U);
  EXPECT_GE(pinned() - pinned_before, 4096U);
  auto const live_made = live();
  auto const pinned_made = pinned();
  auto const reserved_made = device.memory_statistics().peak_reserved_bytes;
  for (int step = 1; step < 5; ++step) {
    model.step(static_cast<std::uint8_t>(step));
    writer.save({.step = step});
    EXPECT_EQ(live(), live_made);
    EXPECT_EQ(pinned(), pinned_made);
  }
  EXPECT_EQ(device.memory_statistics().peak_reserved_bytes, reserved_made);
}

TYPED_TEST(WriterTest, keeps_the_last_and_the_best) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  this->folder_.write("other.safetensors", "not of the writer");
  this->folder_.write("checkpoint-x.safetensors", "nor this");
  std::vector<double> const metrics{0.5, 0.9, 0.2, 0.9, 0.1, 0.3};
  auto const kept = [&] {
    auto names = this->folder_.names();
    std::erase_if(names, [](auto const& name) { return !name.starts_with("checkpoint-0"); });
    for (auto& name : names) {
      name = name.substr(std::string("checkpoint-00000000").size(), 1);
    }
    return names;
  };
  auto const options = this->options({.keep_last = 2, .keep_best = 1, .higher_is_better = true});
  {
    Writer writer(model.tensors(), options);
    for (int step = 1; step <= 4; ++step) {
      writer.save({.step = step, .metric = metrics[static_cast<std::size_t>(step) - 1]});
    }
    writer.wait();
    EXPECT_THAT(kept(), ElementsAre("2", "3", "4")) << "of equal ones, the first is the best";
    EXPECT_EQ(checkpoint::latest(this->folder_.path()), writer.path_of(4));
    EXPECT_EQ(checkpoint::best(this->folder_.path()), writer.path_of(2));
    EXPECT_EQ(checkpoint::best(this->folder_.path(), "checkpoint", false), writer.path_of(3));
    // A metric that is no number is never the best.
    writer.save({.step = 5, .metric = std::numeric_limits<double>::quiet_NaN()});
  }
  EXPECT_THAT(kept(), ElementsAre("2", "4", "5"));
  {
    // Another run goes on in the folder, from an earlier step.
    Writer writer(model.tensors(), options);
    writer.save({.step = 3, .metric = 0.95});
    writer.wait();
    EXPECT_THAT(kept(), ElementsAre("3", "5"));
    EXPECT_EQ(checkpoint::latest(this->folder_.path()), writer.path_of(3));
    EXPECT_EQ(checkpoint::best(this->folder_.path()), writer.path_of(3));
    writer.save({.step = 3});
    writer.wait();
    EXPECT_THAT(kept(), ElementsAre("3", "5")) << "replaced";
    EXPECT_EQ(checkpoint::best(this->folder_.path()), std::nullopt);
  }
  EXPECT_EQ(read_all(this->folder_ / "other.safetensors"), "not of the writer");
  EXPECT_EQ(read_all(this->folder_ / "checkpoint-x.safetensors"), "nor this");
  EXPECT_EQ(checkpoint::latest(this->folder_ / "none"), std::nullopt);
  EXPECT_EQ(checkpoint::latest(this->folder_.path(), "model"), std::nullopt);
}

TYPED_TEST(WriterTest, keeps_all_if_asked) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  {
    Writer writer(model.tensors(), this->options({.name = "m", .keep_last = 0}));
    for (int step = 0; step < 6; ++step) {
      writer.save({.step = step});
    }
  }
  EXPECT_EQ(this->folder_.names().size(), 6U);
  EXPECT_EQ(this->folder_.names().front(), "m-000000000.safetensors");
}

/// Limits the size of files that the process writes, as a full disk does, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(FileSizeLimit const&) = delete;
  FileSizeLimit& operator=(FileSizeLimit const&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

TYPED_TEST(WriterTest, an_error_comes_out_at_the_next_call_and_leaves_the_earlier_file) {
  for (std::size_t const device_bytes : {std::size_t{0}, kEverything}) {
    TemporaryFolder const folder;
    Device<TypeParam> const device;
    SmallModel<TypeParam> const model(device);
    Writer writer(model.tensors(), {.folder = folder.path(), .device_bytes = device_bytes});
    model.step(1);
    writer.save({.step = 1});
    writer.wait();
    auto const before = read_all(writer.path_of(1));
    {
      FileSizeLimit const limit(2000);
      model.step(2);
      writer.save({.step = 1});
      EXPECT_THAT(message_of<std::system_error>([&] { writer.save({.step = 2}); }),
                  ::testing::AllOf(HasSubstr("checkpoint of step 1: "),
                                   HasSubstr("checkpoint-000000001.safetensors"),
                                   HasSubstr("File too large")));
      EXPECT_NO_THROW(writer.wait()) << "it is thrown once, and step 2 was not saved";
    }
    EXPECT_EQ(read_all(writer.path_of(1)), before);
    EXPECT_THAT(folder.names(), ElementsAre("checkpoint-000000001.safetensors"));
    writer.save({.step = 2});
    writer.wait();
    EXPECT_THAT(bytes_of_tensors(writer.path_of(2)), ElementsAre(2));
  }
}

TYPED_TEST(WriterTest, an_error_ends_a_call_that_waits_for_memory) {
  // Of 9,591 bytes, only 1,024 at a time can be on their way, so the call waits for the thread.
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  Writer writer(model.tensors(), this->options({.device_bytes = 0, .pinned_bytes = 1024}));
  {
    FileSizeLimit const limit(2000);
    EXPECT_THAT(message_of<std::system_error>([&] { writer.save({.step = 1}); }),
                HasSubstr("checkpoint of step 1: "));
  }
  EXPECT_THAT(this->folder_.names(), IsEmpty());
  model.step(2);
  writer.save({.step = 2});
  writer.wait();
  EXPECT_THAT(bytes_of_tensors(writer.path_of(2)), ElementsAre(2));
}

TYPED_TEST(WriterTest, an_error_that_nobody_asks_for_is_logged) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  ::testing::internal::CaptureStderr();
  {
    std::optional<Writer> writer(std::in_place, model.tensors(), this->options());
    FileSizeLimit const limit(2000);
    writer->save({.step = 1});
    writer.reset();
  }
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("a checkpoint failed, and no call has waited for it: checkpoint of step 1"));
}

TYPED_TEST(WriterTest, the_destructor_completes_the_file) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<TypeParam> const model(device);
  std::filesystem::path path;
  {
    Writer writer(model.tensors(), this->options());
    model.step(9);
    writer.save({.step = 9});
    path = writer.path_of(9);
  }
  EXPECT_THAT(bytes_of_tensors(path), ElementsAre(9));
}

TYPED_TEST(WriterTest, options_and_headers_out_of_range_are_refused) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  auto const refused = [&](WriterOptions const& options, std::string const& message) {
    EXPECT_THAT(message_of<std::invalid_argument>([&] { Writer(model.tensors(), options); }),
                HasSubstr(message));
  };
  refused({}, "the option folder is empty");
  refused(this->options({.name = ""}), "the name ''");
  refused(this->options({.name = "a/b"}), "the name 'a/b'");
  refused(this->options({.keep_last = -1}), "keep_last is -1; expected at least 0");
  refused(this->options({.keep_best = -1}), "keep_best is -1; expected at least 0");
  refused(this->options({.pinned_bytes = 1023}), "pinned_bytes is 1023; expected at least 1024");
  EXPECT_THAT(message_of<std::invalid_argument>([&] { Writer(Tensors(), this->options()); }),
              HasSubstr("the list has no tensors"));
  EXPECT_THAT(this->folder_.names(), IsEmpty());
  Writer writer(model.tensors(), this->options());
  EXPECT_THROW(writer.save({.step = -1}), std::invalid_argument);
  EXPECT_THROW(writer.save({.metadata = {{"step", "1"}}}), std::invalid_argument);
  EXPECT_FALSE(writer.is_writing());
  EXPECT_THAT(this->folder_.names(), IsEmpty());
}

TYPED_TEST(WriterTest, is_refused_in_a_capture_and_copies_between_replays) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  auto const total = zeros<std::uint8_t>(device, {5000});
  auto const next = zeros<std::uint8_t>(device, {5000});
  Writer writer(Tensors().add("total", total), this->options());
  EXPECT_THAT(message_of<std::logic_error>([&] {
                CapturedStep<TypeParam> const step(device, [&] {
                  fill_bytes(total, 1);
                  writer.save({.step = 1});
                });
              }),
              HasSubstr("checkpoint::Writer::save inside a capture"));
  CapturedStep<TypeParam> step(device, [&] { copy(total, next); });
  for (std::uint8_t i = 1; i <= 3; ++i) {
    fill_bytes(next, i);
    step.replay();
    writer.save({.step = i});
  }
  writer.wait();
  for (int const i : {1, 2, 3}) {
    EXPECT_THAT(bytes_of_tensors(writer.path_of(i)), ElementsAre(i));
  }
}

/// The folder of the test below, in the process that is killed and in the one that looks
/// afterwards.
class SharedFolder {
 public:
  SharedFolder() {
    if (auto const* const given = std::getenv(kVariable)) {
      path_ = given;
    } else {
      own_.emplace();
      path_ = own_->path();
      ::setenv(kVariable, path_.c_str(), 1);
    }
  }
  SharedFolder(SharedFolder const&) = delete;
  SharedFolder& operator=(SharedFolder const&) = delete;
  ~SharedFolder() {
    if (own_) {
      ::unsetenv(kVariable);
    }
  }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  static constexpr char const* kVariable = "MSSTREAM_TEST_KILLED_FOLDER";
  std::optional<TemporaryFolder> own_;
  std::filesystem::path path_;
};

TEST(WriterDeathTest, a_process_that_is_killed_leaves_the_earlier_checkpoint_whole) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  SharedFolder const folder;
  EXPECT_EXIT(
      {
        Device<Host> const device;
        SmallModel<Host> const model(device);
        int saved = 0;
        detail::SnapshotWriter writer(
            model.tensors(), {.folder = folder.path()}, [&](OutputFile::SavePoint point) {
              if (point == OutputFile::SavePoint::synced && ++saved == 2) {
                ::kill(::getpid(), SIGKILL);
              }
            });
        for (std::uint8_t step = 1; step <= 2; ++step) {
          model.step(step);
          writer.save({.step = step}, std::source_location::current());
        }
        writer.wait();
      },
      ::testing::KilledBySignal(SIGKILL),
      "");
  auto const latest = checkpoint::latest(folder.path());
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->filename(), "checkpoint-000000001.safetensors");
  EXPECT_THAT(bytes_of_tensors(*latest), ElementsAre(1));
  Device<Host> const device;
  SmallModel<Host> const model(device);
  {
    Writer writer(model.tensors(), {.folder = folder.path()});
    writer.save({.step = 2});
  }
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("checkpoint-000000001.safetensors",
                                              "checkpoint-000000002.safetensors"))
      << "what the killed process left has been removed";
}

}  // namespace
}  // namespace msstream::testing
