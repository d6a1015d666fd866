/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/args.h"
#include "tools/commands.h"

static const char HELP[] =
    "usage: ein COMMAND ...\n"
    "\n"
    "  ein run MODEL [--devices N | --machine M] [--check] [--repeat R] [--json]\n"
    "                [--target host|cuda] [--plan FILE] [--explain] [--progress] [--dtype T]\n"
    "      compile, run and time a model; --check compares the result with a reference in f64\n"
    "  ein run DIR [--tokens 1,2,3 | --tokens-file FILE | --input FILE.safetensors]\n"
    "              [--generate K [--stop-at-eos]] [--output FILE.safetensors] and the options above\n"
    "      a model folder of Hugging Face: config.json and safetensors weights. Encoders give the\n"
    "      embedding or the last hidden state, decoders logits and K tokens, chosen greedily, image\n"
    "      models (--input has \"pixel_values\") logits. Computed in f32, or as --dtype says; timed only\n"
    "      with --repeat\n"
    "  ein explain MODEL [--devices N | --machine M] [--json] [--why OP] [--save FILE] [--graph FILE]\n"
    "      plan only: how each op is cut, where its result lies, what moves, simulated times, the second\n"
    "      best choice; memory; rivals' plans. --why: all choices of one op (its number, name, weight) and\n"
    "      what each would cost; --save writes the plan as JSON, which ein run --plan reads; --graph\n"
    "      the graph file, a MODEL too\n"
    "  ein ops [--json]                      the ops, their labels and merges\n"
    "  ein doctor [--json]                   what this computer has, and how fast it is\n"
    "  ein cache path|list|trim|clear        plans and kernels kept between runs\n"
    "  ein demo [--json]                     a LLaMA block on 8 virtual devices\n"
    "  ein --version\n"
    "\n"
    "MODEL     llama-7b, llama-13b, llama-65b, llama2-70b, llama3-8b, llama3-70b, moe, with options:\n"
    "          llama-7b:layers=1,batch=1,seq=512,cached=0,head=0,hidden=4096,dtype=f32\n"
    "          (cached=2048,seq=1 decodes; head=1 adds embedding and logits; hidden makes it smaller);\n"
    "          minilm, gpt2, vit-b16, whole models with the same options but head; a config.json or\n"
    "          its folder, with the options but hidden (llama, mistral, qwen2, gemma, gemma2, bert,\n"
    "          gpt2, vit); mlp; matmul:m=..,n=..,k=..; a graph file (inputs by name from --input)\n"
    "TYPES     f32, bf16, f16, f64\n"
    "MACHINE   host:N (N shares of this computer; what --devices N means), a preset such as dgx-h100\n"
    "          or dgx-1:0,1,2,3, a JSON file, cuda (all GPUs; --target cuda), cuda:N (N devices over\n"
    "          the GPUs there are); host:N and cuda can run\n"
    "EXIT      0 done, 1 a result was wrong, 2 bad usage or input, 3 a target, device or tool is missing\n"
    "EIN_CACHE_DIR names the cache folder.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
    {"run", command_run},       {"explain", command_explain}, {"ops", command_ops},
    {"doctor", command_doctor}, {"cache", command_cache},     {"demo", command_demo},
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs(HELP, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        fputs(HELP, stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("ein %s\n", ein_version());
        return EXIT_DONE;
    }
    for (unsigned i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        if (strcmp(argv[1], COMMANDS[i].name) == 0) return COMMANDS[i].run(argc - 2, argv + 2);
    }
    return complain(EXIT_USAGE, "unknown command \"%s\"; see ein --help", argv[1]);
}
