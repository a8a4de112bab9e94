// Preloaded in front of libvulkan, it fails like a GPU that is full, or gone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { int type; const void *next; uint64_t size; uint32_t kind; } AllocateInfo;
typedef void (*Function)(void);
typedef Function (*Lookup)(void *, const char *);
static int (*allocate)(void *, const AllocateInfo *, const void *, void *);
static int (*submit)(void *, uint32_t, const void *, void *);
static uint64_t taken, submitted;
static uint64_t limit(const char *name) { char *value = getenv(name); return value ? strtoull(value, 0, 10) : ~0ull; }
static int limited_allocate(void *device, const AllocateInfo *info, const void *callbacks, void *memory) {
  if (taken + info->size > limit("TEST_VULKAN_BYTES")) return -2;  /* VK_ERROR_OUT_OF_DEVICE_MEMORY */
  int result = allocate(device, info, callbacks, memory);
  if (!result) taken += info->size;
  return result;
}
static int limited_submit(void *queue, uint32_t n, const void *infos, void *fence) {
  if (++submitted > limit("TEST_VULKAN_SUBMISSIONS")) return -(int)limit("TEST_VULKAN_ERROR");
  return submit(queue, n, infos, fence);
}
static Function wrapped(const char *name, Function found) {
  if (found && !strcmp(name, "vkAllocateMemory")) { *(Function *)&allocate = found; return (Function)limited_allocate; }
  if (found && !strcmp(name, "vkQueueSubmit")) { *(Function *)&submit = found; return (Function)limited_submit; }
  return found;
}
Function vkGetDeviceProcAddr(void *device, const char *name) {
  return wrapped(name, ((Lookup)dlsym(RTLD_NEXT, "vkGetDeviceProcAddr"))(device, name));
}
Function vkGetInstanceProcAddr(void *instance, const char *name) {
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (Function)vkGetDeviceProcAddr;
  return wrapped(name, ((Lookup)dlsym(RTLD_NEXT, "vkGetInstanceProcAddr"))(instance, name));
}
