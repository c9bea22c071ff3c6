// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer_fixture.hpp"

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class R>
class WriterFilesTest : public WriterTest<R> {};
TYPED_TEST_SUITE(WriterFilesTest, Runtimes, RuntimeNames);

TYPED_TEST(WriterFilesTest, keeps_the_last_and_the_best) {
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
    // A metric that is no number, or infinite, is never the best.
    writer.save({.step = 5, .metric = std::numeric_limits<double>::quiet_NaN()});
    writer.save({.step = 5, .metric = std::numeric_limits<double>::infinity()});
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

TYPED_TEST(WriterFilesTest, the_best_is_the_lowest_as_the_last_writer_had_it) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  auto const best_of = [&](bool higher_is_better, std::int64_t step, double metric) {
    Writer writer(model.tensors(), this->options({.higher_is_better = higher_is_better}));
    writer.save({.step = step, .metric = metric});
    writer.wait();
    auto const loaded = checkpoint::load(writer.path_of(step), model.tensors());
    EXPECT_THAT(loaded.metadata, IsEmpty()) << "the direction is the library's own text";
    return checkpoint::best(this->folder_.path())->filename();
  };
  EXPECT_EQ(best_of(false, 1, 0.3), "checkpoint-000000001.safetensors");
  EXPECT_EQ(best_of(false, 2, 0.5), "checkpoint-000000001.safetensors");
  EXPECT_EQ(best_of(true, 3, 0.4), "checkpoint-000000002.safetensors");
}

TYPED_TEST(WriterFilesTest, keeps_all_if_asked) {
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

TYPED_TEST(WriterFilesTest, an_error_comes_out_at_the_next_call_and_leaves_the_earlier_file) {
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

TYPED_TEST(WriterFilesTest, an_error_ends_a_call_that_waits_for_memory) {
  // The pinned memory holds 1,024 of the 9,591 bytes of the tensors, so save() waits for the thread
  // that writes the file.
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

TYPED_TEST(WriterFilesTest, an_error_that_nobody_asks_for_is_logged) {
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

/// Lets a folder with a file take the place of an old checkpoint, which no user can remove as a
/// file.
TYPED_TEST(WriterFilesTest, an_old_checkpoint_that_cannot_be_removed_is_no_failure_of_the_new_one) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  std::vector<std::string> lines;
  auto options = this->options({.keep_last = 1});
  options.log = [&](std::string const& line) {
    lines.push_back(line);
    throw std::runtime_error("a log that fails");
  };
  Writer writer(model.tensors(), options);
  auto const save = [&](std::uint8_t step) {
    model.step(step);
    writer.save({.step = step});
    EXPECT_NO_THROW(writer.wait());
    EXPECT_EQ(checkpoint::latest(this->folder_.path()), writer.path_of(step));
    EXPECT_THAT(bytes_of_tensors(writer.path_of(step)), ElementsAre(step));
  };
  save(1);
  auto const first = writer.path_of(1);
  std::filesystem::remove(first);
  std::filesystem::create_directory(first);
  std::ofstream(first / "file") << "kept";

  save(2);
  EXPECT_THAT(writer.not_removed(), ElementsAre(first));
  EXPECT_THAT(lines,
              ElementsAre(::testing::AllOf(HasSubstr("cannot remove the old checkpoint"),
                                           HasSubstr(first.string()),
                                           HasSubstr("Directory not empty"))));
  save(3);
  EXPECT_THAT(writer.not_removed(), ElementsAre(first));
  EXPECT_EQ(lines.size(), 1U) << "it is logged once";
  EXPECT_FALSE(std::filesystem::exists(writer.path_of(2))) << "others are removed";

  std::filesystem::remove(first / "file");
  save(4);
  EXPECT_THAT(writer.not_removed(), IsEmpty());
  EXPECT_THAT(this->folder_.names(), ElementsAre(writer.path_of(4).filename().string()));
}

TYPED_TEST(WriterFilesTest, the_destructor_completes_the_file) {
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

TYPED_TEST(WriterFilesTest, options_and_headers_out_of_range_are_refused) {
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

TYPED_TEST(WriterFilesTest, is_refused_in_a_capture_and_copies_between_replays) {
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
