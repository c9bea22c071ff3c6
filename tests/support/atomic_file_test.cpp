// SPDX-License-Identifier: Apache-2.0
#include "support/temporary_folder.hpp"

#include <msstream/support/atomic_file.hpp>
#include <msstream/support/report.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <system_error>

namespace msstream::support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void save(std::filesystem::path const& path, std::string_view bytes, SaveObserver observer = {}) {
  AtomicFile file(path, std::move(observer));
  file.write(bytes);
  file.commit();
}

/// Runs `save` in a child process that is killed when it reaches `point`.
void kill_while_saving(std::filesystem::path const& path, SavePoint point) {
  int reached[2];
  ASSERT_EQ(::pipe(reached), 0);
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    save(path, "new", [&](SavePoint here) {
      if (here == point) {
        (void)!::write(reached[1], "!", 1);
        ::pause();  // until the parent kills us
      }
    });
    ::_exit(9);
  }
  ::close(reached[1]);
  char byte = 0;
  EXPECT_EQ(::read(reached[0], &byte, 1), 1);
  ::close(reached[0]);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(AtomicFile, ReplacesWholeAndLeavesNothingBeside) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old, and longer");
  save(path, "new");
  EXPECT_EQ(read_all(path), "new");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(AtomicFile, TheOldFileStaysUntilTheCommit) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(read_all(path), "old");
    EXPECT_EQ(folder.names().size(), 2U);
  }
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model")) << "abandoned: the temporary file is removed";
}

TEST(AtomicFile, ASaveThatIsKilledLeavesTheEarlierFileWhole) {
  for (auto const point : {SavePoint::written, SavePoint::synced}) {
    TemporaryFolder const folder;
    auto const path = folder.write("model", "old");
    kill_while_saving(path, point);
    EXPECT_EQ(read_all(path), "old");
    save(path, "later");
    EXPECT_EQ(read_all(path), "later");
  }
}

TEST(AtomicFile, ASaveThatIsKilledAfterTheRenameLeavesTheNewFileWhole) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  kill_while_saving(path, SavePoint::renamed);
  EXPECT_EQ(read_all(path), "new");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(AtomicFile, AnExceptionWhileSavingLeavesTheEarlierFileAlone) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  EXPECT_THROW(save(path, "new", [](SavePoint) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(AtomicFile, AFullDiskIsAnErrorAndLeavesTheEarlierFileAlone) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit const small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  // The first 4,096 bytes are taken, so this is a short write and then the error.
  auto const message = message_of<std::system_error>([&] { save(path, std::string(10'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("cannot write " + path.string() + ": File too large"));
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(AtomicFile, DoesNotReplaceDevicesOrFolders) {
  TemporaryFolder const folder;
  EXPECT_THROW(AtomicFile("/dev/full"), std::invalid_argument);
  EXPECT_THROW(AtomicFile(folder.path()), std::invalid_argument);
  EXPECT_THROW(AtomicFile(folder / ""), std::invalid_argument);
}

TEST(AtomicFile, AFolderThatIsNotThereIsAnError) {
  TemporaryFolder const folder;
  EXPECT_THAT(message_of<std::system_error>([&] { AtomicFile(folder / "absent/model"); }),
              HasSubstr("No such file or directory"));
}

TEST(AtomicFile, WritesThroughASymbolicLink) {
  TemporaryFolder const folder;
  folder.write("model-1", "old");
  std::filesystem::create_symlink("model-1", folder / "latest");
  save(folder / "latest", "new");
  EXPECT_EQ(read_all(folder / "model-1"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "latest"));
}

TEST(Report, IsIndentedJsonWithALastLineEnd) {
  TemporaryFolder const folder;
  write_report(folder / "report.json", {{"auc", 0.5}, {"loss", std::nan("")}, {"file", "\xff"}});
  EXPECT_EQ(read_all(folder / "report.json"),
            "{\n  \"auc\": 0.5,\n  \"loss\": null,\n  \"file\": \"\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace msstream::support
