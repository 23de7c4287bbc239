"""A corrector as an MLflow model: a DataFrame of scores in, the corrected ones out.

python examples/mlflow_service.py corrector.json service
mlflow models serve -m service
"""

import sys

import mlflow.pyfunc

import transil


class Corrected(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        self.corrector = transil.Corrector.load(context.artifacts["corrector"])

    def predict(self, context, model_input, params=None):
        return self.corrector.transform(model_input.astype("float32"))


if __name__ == "__main__":
    mlflow.pyfunc.save_model(
        sys.argv[2],
        python_model=Corrected(),
        artifacts={"corrector": sys.argv[1]},
        pip_requirements=["transil"],
    )
