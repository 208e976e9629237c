// How the launcher passes on what mpirun writes, with pipes and a file in place of the terminal.
#include "launcher/relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "child.h"

namespace overlapbench {
namespace {

constexpr std::size_t kMost_bytes = 1 << 20;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reading = Descriptor(ends[0]);
    writing = Descriptor(ends[1]);
  }
  void Write(const std::string& text) const {
    EXPECT_EQ(write(writing.get(), text.data(), text.size()), std::ssize(text));
  }
  [[nodiscard]] std::string Read() const {
    std::string text(kMost_bytes, ' ');
    text.resize(std::max(0L, read(reading.get(), text.data(), text.size())));
    return text;
  }
  Descriptor reading;
  Descriptor writing;
};

std::string AsItIs(std::string_view bytes) { return std::string(bytes); }

class RelayTest : public testing::Test {
 protected:
  Relay Make(const Relay::Filter& filter = AsItIs) {
    return {std::move(source_.reading), target_.writing.get(), filter};
  }
  // Writes and passes on until the relay reads no more. Returns how many bytes it took.
  std::size_t Fill(Relay& relay) {
    const std::string block(1 << 12, 'x');
    std::size_t bytes = 0;
    for (; relay.Reading().fd >= 0 && bytes < kMost_bytes; bytes += block.size()) {
      source_.Write(block);
      relay.Pass();
    }
    return bytes;
  }

  Pipe source_;
  Pipe target_;
};

TEST_F(RelayTest, PassesOnWhatTheFilterLeaves) {
  Relay relay = Make([](std::string_view bytes) { return "<" + std::string(bytes) + ">"; });
  EXPECT_TRUE(relay.IsIdle());
  EXPECT_EQ(relay.Writing().fd, -1);
  source_.Write("one");
  errno = ENOENT;  // of an earlier call
  relay.Pass();
  EXPECT_EQ(relay.Error(), 0);
  EXPECT_EQ(target_.Read(), "<one>");
  relay.Add("2");  // a single byte
  EXPECT_FALSE(relay.IsIdle());
  relay.Pass();
  EXPECT_EQ(target_.Read(), "2");
  EXPECT_TRUE(relay.IsIdle());
  EXPECT_FALSE(relay.HasEnded());
  source_.writing = Descriptor();
  relay.Pass();
  EXPECT_TRUE(relay.HasEnded());
  EXPECT_EQ(relay.Error(), 0);
}

// It holds 64 KiB. The rest stays where it is, so mpirun waits and loses nothing.
TEST_F(RelayTest, DoesNotWaitForAReaderThatStopsReading) {
  Relay relay = Make();
  const std::size_t bytes = Fill(relay);
  const int pipe_bytes = fcntl(target_.writing.get(), F_GETPIPE_SZ);
  EXPECT_EQ(bytes, (1U << 16) + pipe_bytes);
  EXPECT_FALSE(relay.IsIdle());
  EXPECT_GE(relay.Writing().fd, 0);
  std::size_t passed = 0;
  for (; passed < bytes; relay.Pass()) passed += target_.Read().size();
  EXPECT_EQ(passed, bytes);
  EXPECT_TRUE(relay.IsIdle());
  EXPECT_GE(relay.Reading().fd, 0);
}

TEST_F(RelayTest, WritesOnlyAsMuchAsTheReaderTakes) {
  Relay relay = Make();
  relay.Add(std::string(kMost_bytes, 'x'));
  relay.Pass();  // would wait here
  EXPECT_EQ(target_.Read().size(), fcntl(target_.writing.get(), F_GETPIPE_SZ));
  EXPECT_FALSE(relay.IsIdle());
}

// The user's shell has the same terminal.
TEST_F(RelayTest, LeavesTheTargetAsItWas) {
  const Relay relay = Make();
  EXPECT_EQ(fcntl(target_.writing.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(RelayTest, DoesNotWaitForATerminal) {
  int reading = -1;
  int writing = -1;
  ASSERT_EQ(openpty(&reading, &writing, nullptr, nullptr, nullptr), 0);
  const Descriptor terminal(reading);
  const Descriptor end(writing);
  Relay relay(std::move(source_.reading), end.get(), AsItIs);
  relay.Add(std::string(kMost_bytes, 'x'));
  relay.Pass();  // would wait here
  EXPECT_FALSE(relay.IsIdle());
  EXPECT_EQ(fcntl(end.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(RelayTest, DoesNotWaitForASocket) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  Child waits([&] {
    Relay relay(std::move(source_.reading), writing.get(), AsItIs);
    relay.Add(std::string(kMost_bytes, 'x'));
    relay.Pass();
    return relay.IsIdle() || relay.Error() != 0 ? 1 : 0;
  });
  EXPECT_EQ(waits.End(), 0);
  reading = Descriptor();
  Child gone([&] {
    Relay relay(std::move(source_.reading), writing.get(), AsItIs);
    relay.Add("lost");
    relay.Pass();
    return relay.Error() == EPIPE ? 0 : 1;
  });
  EXPECT_EQ(gone.End(), 0);
}

// As a pipe of another user. Here no descriptor is left.
TEST_F(RelayTest, DoesNotWaitForAPipeThatItCannotOpenAgain) {
  Child job([&] {
    const rlimit none = {3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
    Relay relay = Make();
    relay.Add(std::string(kMost_bytes, 'x'));
    for (pollfd writing = relay.Writing(); poll(&writing, 1, 0) > 0;) relay.Pass();
    return relay.IsIdle() || relay.Error() != 0 ? 1 : 0;
  });
  EXPECT_EQ(job.End(), 0);
  EXPECT_EQ(target_.Read().size(), fcntl(target_.writing.get(), F_GETPIPE_SZ));
}

TEST_F(RelayTest, DropsWhatComesOnceTheReaderHasGone) {
  std::signal(SIGPIPE, SIG_IGN);
  Relay relay = Make();
  target_.reading = Descriptor();
  source_.Write("lost");
  relay.Pass();
  EXPECT_EQ(relay.Error(), EPIPE);
  source_.Write("lost too");
  relay.Pass();
  EXPECT_TRUE(relay.IsIdle());
}

TEST_F(RelayTest, WritesToAFileAtItsPosition) {
  // NOLINTNEXTLINE(clang-analyzer-unix.Stream): the pointer closes it.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  const int target = fileno(file.get());
  ASSERT_EQ(write(target, "before ", 7), 7);
  Relay relay(std::move(source_.reading), target, AsItIs);
  source_.Write("behind");
  relay.Pass();
  std::array<char, 32> text{};
  EXPECT_EQ(pread(target, text.data(), text.size(), 0), 13);
  EXPECT_STREQ(text.data(), "before behind");
}

}  // namespace
}  // namespace overlapbench
