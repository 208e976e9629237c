// DynamicLibrary: a shared library that is opened at run time, and its functions.
//
// A linked library is mapped by every process, even on the host backend: cuBLASLt alone takes 150
// MiB. And a program does not start where one is missing. So the libraries for GPUs are opened when
// they are first used. A table of functions derives from this class:
//
//   struct Nccl : DynamicLibrary {
//     Nccl() : DynamicLibrary("a run on GPUs needs NCCL 2", "libnccl.so.2") {}
//     LIBRARY_FUNCTION(get_version, ncclGetVersion);             // throws Error if it is missing
//     OPTIONAL_LIBRARY_FUNCTION(all_to_all, ncclAlltoAll);       // nullptr if it is missing
//   };
//   nccl.get_version(&version);
//
// The file is found as if it were linked: first one of this name that the process has loaded, such
// as PyTorch's; then in LD_LIBRARY_PATH, in the folders where CMake found the libraries (the
// program's RUNPATH, cmake/cuda.cmake), and in the system's. Last come the usual folders of
// toolkits. It stays loaded, because its threads and callbacks may still run.
#pragma once

#include <string>

namespace overlapbench {

class DynamicLibrary {
 public:
  // Converts to a pointer to any function: the type comes from the member that it initialises.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    explicit operator bool() const { return address_ != nullptr; }
    template <class Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };

  // `need` says what needs which library: the first words of an error. Throws Error if the library
  // cannot be opened.
  DynamicLibrary(std::string need, std::string file);

  // nullptr if the library lacks it.
  [[nodiscard]] Symbol Find(const char* symbol) const;
  // Throws Error if the library lacks it.
  [[nodiscard]] Symbol Need(const char* symbol) const;

 private:
  std::string need_;
  std::string file_;
  void* library_;
};

}  // namespace overlapbench

// Declares the member `name`: the library's `function`, of the type that its header gives it.
#define LIBRARY_FUNCTION(name, function) decltype(&(function)) const name = Need(#function)
#define OPTIONAL_LIBRARY_FUNCTION(name, function) decltype(&(function)) const name = Find(#function)
