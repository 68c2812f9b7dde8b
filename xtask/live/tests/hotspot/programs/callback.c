/* Calls back into Java: Chains.callBack > Chains.calledBack. */
#include <jni.h>

static __attribute__((noinline)) jint call(JNIEnv *env, jclass class, jint seed)
{
    jmethodID method = (*env)->GetStaticMethodID(env, class, "calledBack", "(I)I");
    return method ? (*env)->CallStaticIntMethod(env, class, method, seed) + 1 : 0;
}

JNIEXPORT jint JNICALL Java_Chains_callBack(JNIEnv *env, jclass class, jint seed)
{
    return call(env, class, seed) + 1;
}
