// Preloaded into the program: calls of the system that fail as they do on some machines.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

bool fails(std::string_view what) {
  const char* const asked = std::getenv("STBENCH_FAILING");
  return asked != nullptr && asked == what;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

FILE* open_as(const char* name, const char* path, const char* mode) {
  if (fails("caches") && std::string_view(path).ends_with("/cache/index0/type")) {
    errno = EACCES;
    return nullptr;
  }
  return next<FILE*(const char*, const char*)>(name)(path, mode);
}

}  // namespace

extern "C" {

// std::ifstream opens files by one of these two.
FILE* fopen(const char* path, const char* mode) { return open_as("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return open_as("fopen64", path, mode); }

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  static std::atomic<int> asked = 0;
  if (fails("exit")) std::exit(1);  // as libgomp does if it cannot start a thread
  if (fails("threads") || fails("thread " + std::to_string(++asked))) return EAGAIN;
  return next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create")(
      thread, attributes, start, argument);
}
}
