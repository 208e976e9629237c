// Keeps shared libraries loaded until the process ends, in tests of ranks under the address
// sanitizer: what OpenMPI's plug-ins leak could not be told by name (leak.supp) once they are gone.
extern "C" int dlclose(void* /*handle*/) { return 0; }
