// A control plane in C: a mesh from a directory of YAML, and the files with which its machines
// join.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "osm/c/osm_c.h"

enum { kProxyUid = 1500, kReadyMs = 10000, kStopMs = 5000, kPathMax = 1024 };

static int failed(const char* what, osm_error* error) {
  fprintf(stderr, "c_host: %s: %s: %s\n", what, osm_error_code(error), osm_error_message(error));
  osm_error_free(error);
  return -1;
}

static int system_failed(const char* path) {
  perror(path);
  return -1;
}

// The file has its mode and its owner before it has its content, which may be the key.
static int write_file(const char* directory, const osm_file* file) {
  char path[kPathMax], fresh[kPathMax];
  if (snprintf(path, sizeof path, "%s/%s", directory, file->name) >= (int)sizeof path ||
      snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
    return fprintf(stderr, "c_host: %s: too long\n", directory), -1;
  unlink(fresh);
  const int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL, file->mode);
  if (fd < 0) return system_failed(fresh);
  const size_t size = strlen(file->content);
  const int written = (!file->proxys || fchown(fd, kProxyUid, 0) == 0) &&
                      write(fd, file->content, size) == (ssize_t)size;
  if (close(fd) != 0 || !written || rename(fresh, path) != 0) return system_failed(path);
  return 0;
}

// Writes `directory`/<machine>/ for "<namespace>/<machine>".
static int add_machine(osm_mesh* mesh, const char* directory, const char* machine) {
  char ns[64], path[kPathMax];
  const char* slash = strchr(machine, '/');
  if (slash == NULL || (size_t)(slash - machine) >= sizeof ns ||
      snprintf(path, sizeof path, "%s%s", directory, slash) >= (int)sizeof path)
    return fprintf(stderr, "c_host: %s: write <namespace>/<machine>\n", machine), -1;
  memcpy(ns, machine, (size_t)(slash - machine));
  ns[slash - machine] = '\0';

  osm_error* error;
  const osm_machine joining = {
      .size = sizeof joining, .ns = ns, .name = slash + 1, .directory = path};
  osm_bootstrap* bootstrap = osm_mesh_bootstrap(mesh, &joining, &error);
  if (bootstrap == NULL) return failed(machine, error);
  int result = mkdir(path, 0755) == 0 ? 0 : system_failed(path);
  const osm_file* file;
  for (size_t i = 0; result == 0 && (file = osm_bootstrap_file(bootstrap, i)) != NULL; ++i)
    result = write_file(path, file);
  osm_bootstrap_free(bootstrap);  // erases the key
  return result;
}

static void print(osm_mesh* mesh, const char* target) {
  osm_error* error;
  char* json = osm_mesh_get(mesh, target, &error);
  if (json == NULL) {
    failed(target, error);
    return;
  }
  puts(json);
  fflush(stdout);
  osm_text_free(json);
}

// Until SIGTERM or SIGINT. SIGHUP prints the objects that are left out, and the proxies.
static void serve(osm_mesh* mesh, const sigset_t* signals) {
  puts("ready");
  fflush(stdout);
  int signal = 0;
  while (sigwait(signals, &signal) == 0 && signal == SIGHUP) {
    print(mesh, "/v1/problems");
    print(mesh, "/v1/proxies");
  }
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fputs("usage: c_host ADS_ADDRESS MESH_DIR DIRECTORY [NAMESPACE/MACHINE ...]\n", stderr);
    return 2;
  }
  // The mesh's threads inherit the mask: only sigwait() takes these signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);

  char ca[kPathMax];
  snprintf(ca, sizeof ca, "%s/ca", argv[3]);
  osm_error* error;
  osm_options* options = osm_options_new();
  osm_options_set_ads_address(options, argv[1]);
  osm_options_set_mesh_directory(options, argv[2]);
  osm_options_set_ca_directory(options, ca);
  osm_options_set_log(options, STDERR_FILENO, "warning");
  osm_mesh* mesh = osm_mesh_start(options, &error);
  osm_options_free(options);
  if (mesh == NULL) return failed("start", error), 1;

  int result = osm_mesh_wait_ready(mesh, kReadyMs, &error);
  if (result != 0) failed(argv[2], error);
  for (int i = 4; result == 0 && i < argc; ++i) result = add_machine(mesh, argv[3], argv[i]);
  if (result == 0) serve(mesh, &signals);
  if (osm_mesh_stop(mesh, kStopMs, &error) != 0) result = failed("stop", error);
  return result == 0 ? 0 : 1;
}
