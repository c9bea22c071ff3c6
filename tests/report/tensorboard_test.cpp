// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "report/event_record.hpp"

#include <msstream/report/tensorboard.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace msstream::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_all;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TemporaryFolder;

/// Returns the records of an event file. Fails the test if the file does not consist of whole
/// records with the right checksums.
std::vector<std::string> records_of(std::filesystem::path const& path) {
  std::string const bytes = read_all(path);
  std::vector<std::string> records;
  std::size_t at = 0;
  auto const take = [&](auto& number) {
    ASSERT_LE(at + sizeof number, bytes.size());
    std::memcpy(&number, bytes.data() + at, sizeof number);
    at += sizeof number;
  };
  while (at < bytes.size() && !::testing::Test::HasFatalFailure()) {
    auto const length_bytes = bytes.substr(at, 8);
    std::uint64_t length = 0;
    std::uint32_t checksum = 0;
    take(length);
    take(checksum);
    EXPECT_EQ(checksum, detail::masked_crc32c(length_bytes));
    records.push_back(bytes.substr(at, length));
    at += length;
    take(checksum);
    EXPECT_EQ(checksum, detail::masked_crc32c(records.back()));
  }
  return records;
}

/// Limits the size of files that the process writes, as a full disk does, while it lives.
class SmallDisk {
 public:
  explicit SmallDisk(std::size_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  SmallDisk(SmallDisk const&) = delete;
  SmallDisk& operator=(SmallDisk const&) = delete;
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

class TensorBoardTest : public ::testing::Test {
 protected:
  [[nodiscard]] TensorBoardWriter::Options options(std::size_t buffer_bytes = 1 << 20) {
    return {.buffer_bytes = buffer_bytes, .flush_after = std::chrono::seconds(10), .now = [this] {
              return now_;
            }};
  }
  TemporaryFolder folder_;
  double now_ = 1'700'000'000;
};

TEST_F(TensorBoardTest, the_file_has_the_events_in_their_order) {
  TensorBoardWriter board(folder_ / "runs" / "a", options());
  EXPECT_THAT(board.path().filename().string(), StartsWith("events.out.tfevents.1700000000."));
  now_ += 0.5;
  board.scalar("loss", 0.25, 1);
  board.text("options", "batch 512", 0);
  board.histogram("weights", std::vector<float>{1, 2, 3}, 1);
  EXPECT_THAT(records_of(board.path()), ElementsAre(detail::version_event(now_ - 0.5)))
      << "nothing is due yet";
  board.flush();
  EXPECT_THAT(
      records_of(board.path()),
      ElementsAre(detail::version_event(now_ - 0.5),
                  detail::scalar_event(now_, 1, "loss", 0.25),
                  detail::text_event(now_, 0, "options", "batch 512"),
                  detail::histogram_event(now_, 1, "weights", std::vector<float>{1, 2, 3})));
  board.flush();
  EXPECT_THAT(records_of(board.path()), SizeIs(4));
}

TEST_F(TensorBoardTest, two_writers_of_a_folder_have_files_of_their_own) {
  TensorBoardWriter const a(folder_.path(), options());
  TensorBoardWriter const b(folder_.path(), options());
  EXPECT_NE(a.path(), b.path());
  EXPECT_THAT(folder_.names(), SizeIs(2));
}

TEST_F(TensorBoardTest, events_are_written_in_time_when_the_buffer_is_full_and_at_the_end) {
  std::filesystem::path path;
  {
    TensorBoardWriter board(folder_.path(), options(1024));
    path = board.path();
    board.scalar("loss", 1, 1);
    now_ += 9.9;
    board.scalar("loss", 1, 2);
    EXPECT_THAT(records_of(path), SizeIs(1));
    now_ += 0.1;
    board.scalar("loss", 1, 3);
    EXPECT_THAT(records_of(path), SizeIs(3)) << "the third one waits again";
    int added = 3;
    while (records_of(path).size() == 3) {
      board.scalar("loss", 1, ++added);
      ASSERT_LE(added, 40) << "1 KiB holds no more events";
    }
    EXPECT_EQ(records_of(path).size(), static_cast<std::size_t>(added));
    board.text("long", std::string(5000, 'x'), 1);
    EXPECT_EQ(records_of(path).size(), static_cast<std::size_t>(added) + 2) << "larger than all";
    board.scalar("loss", 1, 100);
  }
  EXPECT_EQ(records_of(path).back(), detail::scalar_event(now_, 100, "loss", 1));
}

TEST_F(TensorBoardTest, a_full_disk_leaves_whole_events_and_loses_none) {
  TensorBoardWriter board(folder_.path(), options(1024));
  for (int step = 0; step < 10; ++step) {
    board.scalar("loss", step, step);
  }
  board.flush();
  auto const before = read_all(board.path());
  int kept = 10;
  {
    SmallDisk const disk(before.size() + 100);
    for (int i = 0; i < 5; ++i) {
      board.scalar("loss", kept, kept);
      ++kept;
    }
    EXPECT_THAT(message_of<std::system_error>([&] { board.flush(); }),
                ::testing::AllOf(HasSubstr("cannot write " + board.path().string()),
                                 HasSubstr("File too large")));
    EXPECT_EQ(read_all(board.path()), before);
    // The memory for events is bounded: when it is full, no more are taken.
    bool is_refused = false;
    while (!is_refused) {
      try {
        board.scalar("loss", kept, kept);
        ++kept;
        ASSERT_LE(kept, 60);
      } catch (std::system_error const&) {
        is_refused = true;
      }
    }
    EXPECT_EQ(read_all(board.path()), before);
  }
  board.flush();
  auto const records = records_of(board.path());
  ASSERT_EQ(records.size(), static_cast<std::size_t>(kept) + 1);
  for (int step = 0; step < kept; ++step) {
    EXPECT_EQ(records[static_cast<std::size_t>(step) + 1],
              detail::scalar_event(now_, step, "loss", step));
  }
}

TEST_F(TensorBoardTest, takes_events_of_several_threads) {
  TensorBoardWriter board(folder_.path(), options(2048));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        board.scalar("loss", i, i);
        if (i % 100 == 0) {
          board.flush();
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  board.flush();
  EXPECT_THAT(records_of(board.path()), SizeIs(2001));
}

TEST_F(TensorBoardTest, wrong_arguments_are_refused_by_name) {
  TensorBoardWriter board(folder_.path(), options());
  EXPECT_THROW(board.scalar("", 1, 1), std::invalid_argument);
  EXPECT_THROW(board.scalar("\xff", 1, 1), std::invalid_argument);
  EXPECT_THROW(board.text("", "x", 1), std::invalid_argument);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { board.text("note", "\xff", 1); }),
              HasSubstr("the text of 'note' is not UTF-8"));
  EXPECT_THROW(board.histogram("", {}, 1), std::invalid_argument);
  board.flush();
  EXPECT_THAT(records_of(board.path()), SizeIs(1));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { TensorBoardWriter(folder_.path(), options(1023)); }),
      HasSubstr("buffer_bytes is 1023; expected at least 1024"));
  EXPECT_THROW(TensorBoardWriter(folder_.path(), {.flush_after = std::chrono::seconds(-1)}),
               std::invalid_argument);
  folder_.write("file", "");
  EXPECT_THROW(TensorBoardWriter(folder_ / "file", options()), std::system_error);
  EXPECT_THAT(folder_.names(), SizeIs(2));
}

}  // namespace
}  // namespace msstream::report
