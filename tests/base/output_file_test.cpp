// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_folder.hpp"

#include <msstream/base/output_file.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
namespace fs = std::filesystem;

/// Returns the message of the exception of type E that `call` throws. Fails the test if it throws
/// none.
template <class E, class Call>
std::string thrown(Call call) {
  try {
    call();
  } catch (E const& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return {};
}

void save(std::filesystem::path const& path,
          std::string_view bytes,
          OutputFile::Observer observer = {}) {
  OutputFile file(path, OutputFile::Kind::regular, std::move(observer));
  file.write(bytes);
  file.commit();
}

void remove_and_end(int signal) {
  remove_unfinished_outputs();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// Saves a file in a child process, and sends the child `signal` when the saving reaches `point`.
/// The child handles SIGTERM with remove_and_end().
void end_while_saving(std::filesystem::path const& path,
                      OutputFile::SavePoint point,
                      int signal = SIGKILL) {
  int reached[2];
  ASSERT_EQ(::pipe(reached), 0);
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGTERM, remove_and_end);
    save(path, "new", [&](OutputFile::SavePoint here) {
      if (here == point) {
        (void)!::write(reached[1], "!", 1);
        while (true) {
          ::pause();  // until the signal of the parent arrives
        }
      }
    });
    ::_exit(9);
  }
  ::close(reached[1]);
  char byte = 0;
  EXPECT_EQ(::read(reached[0], &byte, 1), 1);
  ::close(reached[0]);
  ::kill(child, signal);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

TEST(OutputFile, replaces_whole_and_leaves_nothing_beside) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old, and longer");
  save(path, "new");
  EXPECT_EQ(read_all(path), "new");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(OutputFile, the_old_file_stays_until_the_commit) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  {
    OutputFile file(path);
    file.write("new");
    EXPECT_EQ(read_all(path), "old");
    EXPECT_EQ(folder.names().size(), 2U);
  }
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model")) << "abandoned: the temporary file is removed";
}

TEST(OutputFile, a_save_that_is_killed_leaves_the_earlier_file_whole) {
  for (auto const point : {OutputFile::SavePoint::written, OutputFile::SavePoint::synced}) {
    TemporaryFolder const folder;
    auto const path = folder.write("model", "old");
    end_while_saving(path, point);
    EXPECT_EQ(read_all(path), "old");
    EXPECT_THAT(folder.names(), SizeIs(2)) << "nobody could remove the temporary file";
    save(folder / "other", "x");
    EXPECT_THAT(folder.names(), SizeIs(3)) << "it belongs to another file";
    save(path, "later");
    EXPECT_EQ(read_all(path), "later");
    EXPECT_THAT(folder.names(), ElementsAre("model", "other"));
  }
}

TEST(OutputFile, a_save_that_is_killed_after_the_rename_leaves_the_new_file_whole) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  end_while_saving(path, OutputFile::SavePoint::renamed);
  EXPECT_EQ(read_all(path), "new");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(OutputFile, an_exception_while_saving_leaves_the_earlier_file_alone) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  EXPECT_THROW(save(path, "new", [](OutputFile::SavePoint) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(OutputFile, a_full_disk_is_an_error_and_leaves_the_earlier_file_alone) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit const small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  // The file size limit of the process allows 4,096 bytes: the first write() is short, and the next
  // one fails.
  auto const message = thrown<std::system_error>([&] { save(path, std::string(10'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("cannot write " + path.string() + ": File too large"));
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(OutputFile,
     a_file_system_that_fills_in_the_middle_is_an_error_and_leaves_the_earlier_file_alone) {
  TemporaryFolder const folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this process may not mount a file system";
  }
  auto const path = folder.write("model", "old");
  EXPECT_THAT(thrown<std::system_error>([&] { save(path, std::string(100'000, 'x')); }),
              EndsWith("No space left on device"));
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
  save(path, std::string(10'000, 'x'));
  EXPECT_EQ(read_all(path).size(), 10'000U) << "the space of what failed is free again";
  ASSERT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(OutputFile, a_signal_that_ends_the_process_leaves_no_temporary_file) {
  for (auto const point : {OutputFile::SavePoint::written, OutputFile::SavePoint::synced}) {
    TemporaryFolder const folder;
    auto const path = folder.write("model", "old");
    end_while_saving(path, point, SIGTERM);
    EXPECT_EQ(read_all(path), "old");
    EXPECT_THAT(folder.names(), ElementsAre("model"));
  }
}

TEST(OutputFile, one_that_is_being_written_is_not_stale) {
  TemporaryFolder const folder;
  OutputFile first(folder / "model");
  first.write("first");
  save(folder / "model", "second");
  EXPECT_EQ(output_problem(folder / "model"), "");
  EXPECT_THAT(folder.names(), SizeIs(2));
  first.commit();
  EXPECT_EQ(read_all(folder / "model"), "first");
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST(OutputFile, has_the_longest_name_that_a_file_may_have) {
  TemporaryFolder const folder;
  std::string const name(255, 'n');
  save(folder / name, "new");
  EXPECT_THAT(folder.names(), ElementsAre(name));
  EXPECT_THAT(output_problem(folder / (name + "n")), EndsWith("File name too long"));
}

TEST(OutputFile, keeps_the_permissions_of_the_old_file) {
  TemporaryFolder const folder;
  auto const path = folder.write("model", "old");
  for (unsigned const mode : {0600U, 0640U, 0666U, 0755U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    save(path, "new");
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, mode);
  }
  auto const before = ::umask(027);
  save(folder / "fresh", "new");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat((folder / "fresh").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

/// Runs the process as the user nobody while the object lives, if the process runs as root.
class AsNobody {
 public:
  AsNobody() {
    constexpr uid_t nobody = 65534;
    if (::geteuid() == 0) {
      EXPECT_EQ(::seteuid(nobody), 0);
    }
  }
  AsNobody(AsNobody const&) = delete;
  AsNobody& operator=(AsNobody const&) = delete;
  ~AsNobody() { EXPECT_EQ(::seteuid(::getuid()), 0); }
};

TEST(OutputFile, what_may_not_be_written_is_told_before) {
  TemporaryFolder const folder;
  auto const file = folder.write("model", "old");
  fs::create_directory(folder / "closed");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod((folder / "closed").c_str(), 0555), 0);
  ASSERT_EQ(::chmod(file.c_str(), 0444), 0);
  {
    AsNobody const as_nobody;
    EXPECT_EQ(output_problem(folder / "closed/model"),
              "cannot create a file in " + (folder / "closed").string() + ": Permission denied");
    EXPECT_EQ(output_problem(file), "cannot be written: Permission denied");
    EXPECT_THROW(OutputFile{file}, std::system_error);
    EXPECT_EQ(output_problem(folder / "new"), "");
    EXPECT_FALSE(fs::exists(folder / "new"));
  }
  EXPECT_EQ(read_all(file), "old");
  EXPECT_EQ(output_problem(folder.path()), "is a folder; expected a file");
  EXPECT_EQ(output_problem(folder / "absent/model"),
            "there is no folder " + (folder / "absent").string() + ": No such file or directory");
  EXPECT_THAT(output_problem(file / "below"), EndsWith("Not a directory"));
  EXPECT_EQ(output_problem(folder / ""), "expected the name of a file");
  EXPECT_EQ(output_problem(""), "expected the name of a file");
  // In /proc no user, not even root, can create a file.
  EXPECT_THAT(output_problem("/proc/model"), StartsWith("cannot create a file in /proc: "));
}

TEST(OutputFile, does_not_replace_devices_or_folders) {
  TemporaryFolder const folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (fs::path const& path : {fs::path("/dev/full"), fs::path("/dev/null"), folder / "fifo"}) {
    EXPECT_THROW(OutputFile{path}, std::invalid_argument);
    EXPECT_THAT(output_problem(path), EndsWith("; expected a regular file"));
    EXPECT_EQ(output_problem(path, OutputFile::Kind::streamed), "");
  }
  EXPECT_THROW(OutputFile(folder.path()), std::invalid_argument);
  EXPECT_THROW(OutputFile(folder / ""), std::invalid_argument);
  EXPECT_TRUE(fs::is_fifo(folder / "fifo"));
}

TEST(OutputFile, writes_to_devices) {
  write_file("/dev/null", "gone", OutputFile::Kind::streamed);
  EXPECT_EQ(
      thrown<std::system_error>([] { write_file("/dev/full", "x", OutputFile::Kind::streamed); }),
      "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(OutputFile, writes_to_a_fifo) {
  TemporaryFolder const folder;
  auto const path = folder / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (auto const kind : {OutputFile::Kind::streamed, OutputFile::Kind::streamed_at_once}) {
    // The reader opens first, so that opening the FIFO for writing does not block.
    int const reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(reader, 0);
    write_file(path, "through", kind);
    char bytes[16] = {};
    EXPECT_EQ(::read(reader, bytes, sizeof bytes), 7);
    EXPECT_STREQ(bytes, "through");
    ::close(reader);
  }
  EXPECT_EQ(
      thrown<std::invalid_argument>([&] { OutputFile(path, OutputFile::Kind::streamed_at_once); }),
      "cannot write " + path.string() + ": nobody reads the FIFO");
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_THAT(folder.names(), ElementsAre("fifo"));
}

TEST(OutputFile, a_reader_that_goes_away_is_an_error) {
  TemporaryFolder const folder;
  auto const path = folder / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  int const reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  OutputFile file(path, OutputFile::Kind::streamed);
  ::close(reader);
  EXPECT_THAT(thrown<std::system_error>([&] { file.write("x"); }), EndsWith("Broken pipe"));
}

TEST(OutputFile, the_file_of_the_standard_output_is_written_and_not_replaced) {
  TemporaryFolder const folder;
  auto const path = folder.write("out", "");
  pid_t const child = ::fork();
  if (child == 0) {
    int const out = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ::dup2(out, STDOUT_FILENO);
    (void)!::write(STDOUT_FILENO, "before ", 7);
    write_file("/dev/stdout", "report", OutputFile::Kind::streamed);
    write_file(path, " again", OutputFile::Kind::streamed);
    (void)!::write(STDOUT_FILENO, " after", 6);
    ::_exit(output_problem(path) == "is the standard output; expected a regular file" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_all(path), "before report again after");
}

TEST(OutputFile, a_folder_that_is_not_there_is_an_error) {
  TemporaryFolder const folder;
  EXPECT_THAT(thrown<std::system_error>([&] { OutputFile(folder / "absent/model"); }),
              HasSubstr("there is no folder " + (folder / "absent").string()));
}

TEST(OutputFile, writes_through_a_symbolic_link) {
  TemporaryFolder const folder;
  folder.write("model-1", "old");
  std::filesystem::create_symlink("model-1", folder / "latest");
  save(folder / "latest", "new");
  EXPECT_EQ(read_all(folder / "model-1"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "latest"));
}

TEST(OutputFile, writes_through_a_link_to_what_is_not_there_yet) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "models");
  fs::create_symlink("models/new", folder / "link");
  fs::create_symlink("link", folder / "latest");
  save(folder / "latest", "new");
  EXPECT_EQ(read_all(folder / "models/new"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "latest"));
  fs::create_symlink("round", folder / "round");
  EXPECT_THAT(output_problem(folder / "round"), EndsWith("Too many levels of symbolic links"));
}

TEST(OutputFile, other_hard_links_keep_the_old_file) {
  TemporaryFolder const folder;
  fs::create_hard_link(folder.write("model", "old"), folder / "other");
  save(folder / "model", "new");
  EXPECT_EQ(read_all(folder / "model"), "new");
  EXPECT_EQ(read_all(folder / "other"), "old");
}

}  // namespace
}  // namespace msstream::testing
