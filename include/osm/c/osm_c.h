// The control plane for hosts in C, and in languages that call C: a mesh over objects in a
// directory of YAML or in memory, with a CA of its own. examples/c_host and examples/python_host
// use it.
//
//   osm_error* error;
//   osm_options* options = osm_options_new();
//   osm_options_set_mesh_directory(options, "/etc/shop/mesh");
//   osm_mesh* mesh = osm_mesh_start(options, &error);
//   if (mesh == NULL) return report(osm_error_message(error));
//
// For all functions:
// Result: a function with the parameter `error` returns 0, or a pointer that is not null. It sets
// `*error` to null.
// Failure: it returns -1 or null, and `*error` is a new error, which the caller frees by
// osm_error_free(). `*error` is null if memory is exhausted: osm_error_message() then says so.
// `error` may be null. A pointer that may not be null and is fails with invalid-argument.
// Thread: any, concurrently; of one osm_options one call at a time. No exception leaves a function.
// Lifetime: arguments are copied. A result of type `const char*` or `const osm_file*` is borrowed,
// and lives as long as its owner, the first argument. Others are the caller's, with a function that
// frees them. Functions that free accept null.
//
// Texts are UTF-8 and end in NUL. docs/error-codes.md lists the codes of errors.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Number of this interface. It grows when a function, a field or an option is added. A change that
// breaks hosts changes the name of the shared library instead.
#define OSM_C_VERSION 1

#define OSM_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// The OSM_C_VERSION of the library that is loaded. A host works with its own number and later ones.
// Blocking: no.
OSM_C_API int osm_c_version(void);

// A failure: a stable code, and a message for people without secrets.
typedef struct osm_error osm_error;

// "invalid-argument" / the message, which names the object, the field and the remedy. An error that
// is null is one of exhausted memory, "internal". Blocking: no.
OSM_C_API const char* osm_error_code(const osm_error* error);
OSM_C_API const char* osm_error_message(const osm_error* error);
OSM_C_API void osm_error_free(osm_error* error);

// Frees a result of type `char*`.
OSM_C_API void osm_text_free(char* text);

// Settings of a mesh. Setters check nothing: osm_mesh_start() reports a value that is invalid, and
// names the setter. A value that is null is the default again.
typedef struct osm_options osm_options;

// Result: options with all defaults; null: memory is exhausted. They may be freed, or used again,
// after the start of a mesh. Blocking: no.
OSM_C_API osm_options* osm_options_new(void);
// Erases a CA that was given, too.
OSM_C_API void osm_options_free(osm_options* options);

// Directory of YAML files with the objects of the mesh, which is watched for changes and need not
// exist yet. Default: none; the mesh has the objects of osm_mesh_apply().
OSM_C_API void osm_options_set_mesh_directory(osm_options* options, const char* path);
// "HOST:PORT" that Envoys connect to; with port 0 the kernel chooses one. Default: "0.0.0.0:15128".
OSM_C_API void osm_options_set_ads_address(osm_options* options, const char* address);
// Directory that keeps the CA, made with mode 0700 and a new CA if it is absent. Default: a CA in
// memory, which ends with the mesh: all proxies then need new certificates.
OSM_C_API void osm_options_set_ca_directory(osm_options* options, const char* path);
// The CA itself, PEM: its private key and its certificate, then its issuers in order, the root
// last. The copy is erased with the options. Not together with a directory. Default: as above.
OSM_C_API void osm_options_set_ca_pem(osm_options* options, const char* pem);
// SPIFFE trust domain of all identities. Default: "cluster.local".
OSM_C_API void osm_options_set_trust_domain(osm_options* options, const char* domain);
// Writes a JSON object for each log line to the descriptor `fd`, which stays the caller's and
// outlives the mesh. `level`: the least, "debug", "info", "warning" or "error". A line that `fd`
// does not take within a second is lost. Default: no log, as with a negative `fd`.
OSM_C_API void osm_options_set_log(osm_options* options, int fd, const char* level);

// A running mesh. Any number of them live in one process.
typedef struct osm_mesh osm_mesh;

// Result: a mesh that listens. It has four threads and those of gRPC, which inherit the caller's
// signal mask. Its process may fork() only to exec().
// Failure: invalid-argument (an option), unavailable (port taken), storage and invalid-certificate
// (the CA). Blocking: disk, and making keys.
OSM_C_API osm_mesh* osm_mesh_start(const osm_options* options, osm_error** error);

// "HOST:PORT" with the real port. Blocking: no.
OSM_C_API const char* osm_mesh_ads_address(const osm_mesh* mesh);

// Waits until the objects have been read, so that proxies are configured.
// Failure: deadline-exceeded, naming the reasons. Blocking: up to `timeout_ms` milliseconds.
OSM_C_API int osm_mesh_wait_ready(osm_mesh* mesh, int timeout_ms, osm_error** error);

// Creates or replaces the objects of a YAML or JSON text; `---` separates them. All are checked
// first, by the rules of the validating webhook. If one is refused, nothing changes.
// Failure: invalid-syntax, unknown-kind, too-large, invalid-field, conflict; invalid-argument (the
// objects are in a directory). Blocking: until they are checked.
OSM_C_API int osm_mesh_apply(osm_mesh* mesh, const char* yaml, osm_error** error);

// Deletes the objects of the text, of which apiVersion, kind and metadata count. If one is not
// there, nothing changes. Failure: not-found; as above. Blocking: no.
OSM_C_API int osm_mesh_delete(osm_mesh* mesh, const char* yaml, osm_error** error);

// Waits until every connected proxy has applied the present version of each object of the text, or
// its removal. As above, only the objects' names count. An object of a kind that shapes no proxy,
// such as a Namespace, counts as applied.
// Failure: deadline-exceeded, naming the proxies; not-found; the code of the object's problem if it
// was left out. Blocking: up to `timeout_ms` milliseconds.
OSM_C_API int osm_mesh_wait_applied(osm_mesh* mesh, const char* yaml, int timeout_ms,
                                    osm_error** error);

// Result: the answer of the admin API to a GET of `target`, JSON, for osm_text_free(). Targets are
// "/v1/problems", "/v1/proxies", "/v1/policy/check?source=shop/client&destination=shop/server" and
// others, which daemons/README.md lists with their fields. "/metrics" gives the metrics, in the
// text format of Prometheus. No answer holds a key. Failure: not-found, invalid-argument,
// not-ready. Blocking: briefly.
OSM_C_API char* osm_mesh_get(osm_mesh* mesh, const char* target, osm_error** error);

// A machine that joins, for osm_mesh_bootstrap(). Begin with `osm_machine m = {sizeof m}`: members
// that a later version adds are then 0, their default.
typedef struct osm_machine {
  size_t size;       // sizeof(osm_machine)
  const char* ns;    // namespace and name of the VirtualMachine
  const char* name;  //
  // "HOST:PORT" of the mesh as the machine reaches it. Null: osm_mesh_ads_address().
  const char* controller;
  const char* directory;  // absolute path of the files on the machine
  // Certificate request (PKCS#10, PEM) that the machine made, for the subject that
  // "/v1/vm/subject?namespace=&name=" tells. Null: the mesh makes the key, and it is the first
  // file.
  const char* request_pem;
  uint32_t proxy_uid;  // user of Envoy on the machine; 0: 1500
} osm_machine;

// The files with which a machine joins the mesh.
typedef struct osm_bootstrap osm_bootstrap;

// One file. Write them in their order, each with its mode from the start.
typedef struct osm_file {
  const char* name;     // within the directory
  const char* content;  // a text
  unsigned mode;        // 0600: of open(2)
  int proxys;           // owner: 1: Envoy's user; 0: root, who may run it
} osm_file;

// Issues a certificate for the machine's proxy, and expects that proxy from now on.
// Result: its files, for osm_bootstrap_free(). Each call makes another certificate. MeshConfig sets
// its validity. Failure: not-found (the machine, and why), invalid-argument (a member). Blocking:
// until a key is made and the CA has signed.
OSM_C_API osm_bootstrap* osm_mesh_bootstrap(osm_mesh* mesh, const osm_machine* machine,
                                            osm_error** error);
// The file with that number, from 0; null: there are no more. Blocking: no.
OSM_C_API const osm_file* osm_bootstrap_file(const osm_bootstrap* bootstrap, size_t index);
// Erases the key.
OSM_C_API void osm_bootstrap_free(osm_bootstrap* bootstrap);

// Ends all streams and threads, and frees the mesh, whatever the result is. Proxies keep their
// configuration. No other call with this mesh runs, or follows.
// Failure: deadline-exceeded (streams were cut). Blocking: up to `deadline_ms` milliseconds for the
// streams, then until running tasks have returned.
OSM_C_API int osm_mesh_stop(osm_mesh* mesh, int deadline_ms, osm_error** error);

#ifdef __cplusplus
}
#endif
