// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// A tool as NVTX loads one (NVTX_INJECTION64_PATH): writes the ranges of all threads to the file
// NVTX_TEST_LOG.
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static FILE* file;

static void write_line(const char* name) {
  fprintf(file, "%ld %s\n", (long)syscall(SYS_gettid), name);
  fflush(file);
}

static int push(const char* name) {
  write_line(name);
  return 0;
}

static int pop(void) {
  write_line("pop");
  return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  NvtxFunctionTable functions;
  unsigned int size = 0;
  const NvtxExportTableCallbacks* const callbacks =
      (const NvtxExportTableCallbacks*)get_table(NVTX_ETID_CALLBACKS);
  file = fopen(getenv("NVTX_TEST_LOG"), "a");
  if (file == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size)) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *functions[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
