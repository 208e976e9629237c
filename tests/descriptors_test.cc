// Descriptors that ranks send each other, on one rank, on two and on three; and that nobody else's
// are taken.
#include "ranks/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>

#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {
namespace {

// Errors of system calls, by name.
std::map<std::string, int>& Refusals() {
  static std::map<std::string, int> refusals;
  return refusals;
}
// Whether messages leave without their descriptors, and twice.
bool& SendsTwiceWithoutThem() {
  static bool sends_twice = false;
  return sends_twice;
}
// Refuses any `flags`, or protocol: not every kernel refuses the wrong ones.
template <class Call>
int Refusing(const char* name, const Call& call, unsigned flags = 0) {
  if (flags != 0) Refusals()[name] = EINVAL;
  const auto found = Refusals().find(name);
  if (found == Refusals().end()) return static_cast<int>(call());
  errno = found->second;
  return -1;
}

}  // namespace

// The linker puts these in the place of the C library's.
int WrappedSocket(int domain, int type, int protocol) asm("__wrap_socket");
int WrappedSocket(int domain, int type, int protocol) {
  return Refusing("socket", [&] { return syscall(SYS_socket, domain, type, protocol); }, protocol);
}
int WrappedOption(int fd, int level, int name, const void* value,
                  socklen_t size) asm("__wrap_setsockopt");
int WrappedOption(int fd, int level, int name, const void* value, socklen_t size) {
  return Refusing("setsockopt",
                  [&] { return syscall(SYS_setsockopt, fd, level, name, value, size); });
}
int WrappedBind(int fd, const sockaddr* address, socklen_t size) asm("__wrap_bind");
int WrappedBind(int fd, const sockaddr* address, socklen_t size) {
  return Refusing("bind", [&] { return syscall(SYS_bind, fd, address, size); });
}
ssize_t WrappedReceive(int fd, msghdr* message, int flags) asm("__wrap_recvmsg");
ssize_t WrappedReceive(int fd, msghdr* message, int flags) {
  return Refusing("recvmsg", [&] { return syscall(SYS_recvmsg, fd, message, flags); });
}
ssize_t WrappedSend(int fd, const msghdr* message, int flags) asm("__wrap_sendmsg");
ssize_t WrappedSend(int fd, const msghdr* message, int flags) {
  msghdr sent = *message;
  if (SendsTwiceWithoutThem()) {
    sent.msg_control = nullptr;
    sent.msg_controllen = 0;
    syscall(SYS_sendmsg, fd, &sent, flags);
  }
  return Refusing("sendmsg", [&] { return syscall(SYS_sendmsg, fd, &sent, flags); }, flags);
}
ssize_t WrappedRandom(void* bytes, size_t size, unsigned flags) asm("__wrap_getrandom");
ssize_t WrappedRandom(void* bytes, size_t size, unsigned flags) {
  return Refusing("getrandom", [&] { return syscall(SYS_getrandom, bytes, size, flags); }, flags);
}

namespace {

// A file in memory that holds the rank's number stands for memory that is shared.
TEST(Descriptors, EveryRankGetsTheOthersDescriptors) {
  Ranks& ranks = TestRanks();
  for (int round = 0; round < 2; ++round) {  // the second must not get the first one's messages
    const int value = 10 * round + ranks.rank();
    const Descriptor own(memfd_create("shared", 0));
    ASSERT_EQ(pwrite(own.get(), &value, sizeof(value), 0), sizeof(value));
    const auto descriptors = ExchangeDescriptors(ranks, own);
    ASSERT_EQ(descriptors.size(), static_cast<std::size_t>(ranks.size()));
    for (int peer = 0; peer < ranks.size(); ++peer) {
      int read = -1;
      if (peer == ranks.rank())
        EXPECT_TRUE(descriptors[peer].empty());
      else
        ASSERT_EQ(pread(descriptors[peer].get(), &read, sizeof(read), 0), sizeof(read));
      EXPECT_EQ(read, peer == ranks.rank() ? -1 : 10 * round + peer);
    }
  }
}

// Containers may share names and not process numbers, and nobody can take a name before a rank.
TEST(DescriptorSocket, HasANameThatNobodyGuesses) {
  const DescriptorSocket first;
  const DescriptorSocket second;
  EXPECT_NE(first.name(), second.name());
  const std::string digits = first.name().substr(std::string("overlapbench-").size());
  EXPECT_EQ(digits.size(), 32U);
  EXPECT_NE(digits.substr(16), digits.substr(0, 16)) << "all of them are random";
  EXPECT_EQ(first.name().find("-" + std::to_string(getpid()) + "-"), std::string::npos);
}

TEST(DescriptorSocket, NamesTheCallThatFails) {
  for (const char* call : {"getrandom", "socket", "setsockopt", "bind"}) {
    Refusals() = {{call, EPERM}};
    EXPECT_EQ(Thrown<Error>([] { DescriptorSocket(); }),
              std::string(call) + " failed: Operation not permitted");
  }
  Refusals().clear();
  const DescriptorSocket socket;
  std::vector<Descriptor> descriptors(1);
  socket.Send(socket.name(), 0, Descriptor(memfd_create("shared", 0)));
  for (const int passing : {EAGAIN, EINTR}) {
    Refusals() = {{"recvmsg", passing}};
    EXPECT_FALSE(socket.Receive(descriptors));
    EXPECT_TRUE(descriptors[0].empty());
  }
  Refusals() = {{"recvmsg", ENOMEM}};
  EXPECT_EQ(Thrown<Error>([&] { static_cast<void>(socket.Receive(descriptors)); }),
            "recvmsg failed: Cannot allocate memory");
  Refusals().clear();
  EXPECT_FALSE(socket.Receive(descriptors));
  EXPECT_FALSE(descriptors[0].empty()) << "it was not lost";
}

// Sends a descriptor in a process of `user`.
void SendAs(uid_t user, const std::string& name, int rank) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setresuid(user, user, user) != 0) _exit(1);
    try {
      const DescriptorSocket socket;
      socket.Send(name, rank, Descriptor(memfd_create("shared", 0)));
      _exit(0);
    } catch (const Error&) {
      _exit(2);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

TEST(DescriptorSocket, TakesMessagesOfItsOwnUserOnly) {
  constexpr uid_t kAnother = 65534;
  const DescriptorSocket socket;
  std::vector<Descriptor> descriptors(2);
  SendAs(getuid(), socket.name(), 1);
  EXPECT_FALSE(socket.Receive(descriptors));
  EXPECT_FALSE(descriptors[1].empty());
  SendAs(getuid(), socket.name(), 7);
  EXPECT_TRUE(socket.Receive(descriptors)) << "there is no such rank";
  if (getuid() != 0) GTEST_SKIP() << "only root may become another user";
  SendAs(kAnother, socket.name(), 0);
  EXPECT_TRUE(socket.Receive(descriptors));
  EXPECT_TRUE(descriptors[0].empty());
  EXPECT_FALSE(socket.Receive(descriptors)) << "it was the last";
}

// Sends bytes and descriptors to a socket, as any process may.
void SendRaw(const std::string& name, std::span<const int> bytes, int descriptors) {
  const Descriptor sender(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (sender.empty()) FAIL() << std::strerror(errno);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  name.copy(to.sun_path + 1, sizeof(to.sun_path) - 1);
  iovec part{const_cast<int*>(bytes.data()), bytes.size_bytes()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> space{};
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  msghdr header{&to, length, &part, 1, nullptr, 0, 0};
  if (descriptors > 0) {
    header.msg_control = space.data();
    header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const std::array<int, 2> both = {sender.get(), sender.get()};
    std::memcpy(CMSG_DATA(control), both.data(), descriptors * sizeof(int));
  }
  ASSERT_GE(sendmsg(sender.get(), &header, 0), 0) << std::strerror(errno);
}

long OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

TEST(DescriptorSocket, DropsWhatNoRankSendsAndKeepsNothingOfIt) {
  const DescriptorSocket socket;
  std::vector<Descriptor> descriptors(2);
  struct Case {
    std::vector<int> bytes;
    int descriptors;
    bool dropped;
  };
  for (const auto& [bytes, count, dropped] : std::vector<Case>{{{0}, 0, true},
                                                               {{0}, 2, true},
                                                               {{0, 0}, 1, true},
                                                               {{-1}, 1, true},
                                                               {{2}, 1, true},
                                                               {{}, 1, true},
                                                               {{0}, 1, false},
                                                               {{1}, 1, false}}) {
    const long before = OpenDescriptors();
    SendRaw(socket.name(), bytes, count);
    EXPECT_EQ(socket.Receive(descriptors), dropped) << testing::PrintToString(bytes) << count;
    EXPECT_EQ(OpenDescriptors() - before, dropped ? 0 : 1);
  }
  EXPECT_FALSE(descriptors[0].empty());
  EXPECT_FALSE(descriptors[1].empty());
  EXPECT_EQ(fcntl(descriptors[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST(Descriptors, ADescriptorThatCannotBeSentIsAnErrorOnAll) {
  Ranks& ranks = TestRanks();
  if (ranks.size() == 1) GTEST_SKIP() << "needs two ranks";
  const bool is_last = ranks.rank() == ranks.size() - 1;
  const Descriptor own(is_last ? -1 : memfd_create("shared", 0));
  const std::string text = Thrown<AgreedError>([&] { ExchangeDescriptors(ranks, own); });
  EXPECT_NE(text.find("sendmsg failed"), std::string::npos) << text;
}

TEST(Descriptors, ARankThatSharesNothingIsNamed) {
  Ranks& ranks = TestRanks();
  if (ranks.size() == 1) GTEST_SKIP() << "needs two ranks";
  const int last = ranks.size() - 1;
  const Descriptor own(memfd_create("shared", 0));
  std::string text;
  ranks.Barrier("the test");
  if (ranks.rank() == last) {
    SendsTwiceWithoutThem() = true;
    text = Thrown<AgreedError>([&] { ExchangeDescriptors(ranks, own); });
    SendsTwiceWithoutThem() = false;
  } else {
    const ShortTimeout timeout(std::chrono::seconds(2));
    text = Thrown<AgreedError>([&] { ExchangeDescriptors(ranks, own); });
  }
  EXPECT_NE(text.find("rank " + std::to_string(last) +
                      " did not share its memory within 2 s; 2 messages of other processes were "
                      "dropped"),
            std::string::npos)
      << text;
  ranks.Barrier("the end of the test");
}

}  // namespace
}  // namespace overlapbench
