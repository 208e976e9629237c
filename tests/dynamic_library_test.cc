// Opens a library that every system has: libm.
#include "device/dynamic_library.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "device/error.h"

namespace overlapbench {
namespace {

struct Math : DynamicLibrary {
  Math() : DynamicLibrary("this test needs libm", "libm.so.6") {}
  double (*const square_root)(double) = Need("sqrt");
  double (*const cube_root)(double) = Find("no_such_root");
};

std::string ErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DynamicLibraryTest, HasTheFunctionsOfItsTable) {
  const Math math;
  EXPECT_EQ(math.square_root(9), 3);
  EXPECT_EQ(math.cube_root, nullptr);
}

TEST(DynamicLibraryTest, NamesWhatIsMissingAndTheRemedy) {
  EXPECT_EQ(ErrorOf([] { DynamicLibrary("this test needs NSL", "libno_such.so.9"); }),
            "this test needs NSL (libno_such.so.9: cannot open shared object file: No such file or "
            "directory): install it, or name its folder in LD_LIBRARY_PATH");
}

TEST(DynamicLibraryTest, NamesTheMissingFunction) {
  const Math math;
  EXPECT_EQ(ErrorOf([&] { (void)math.Need("no_such_root"); }),
            "this test needs libm (libm.so.6 has no no_such_root): install a newer one");
}

}  // namespace
}  // namespace overlapbench
